"""What finished runs and data sets show under closer inspection.

Class activation maps, linear probes, detectors on kept evidence, and the examination of a data set
before training. It imports runs, report and all below them; experiments and the command line
import it.
"""
