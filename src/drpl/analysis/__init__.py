"""What a data set or a finished run is made of, seen from close by.

Class activation maps, linear probes, detectors on finished runs, and the doctor's look at data live
here. It imports runs and the report's figures; experiments and the command line import it.
"""
