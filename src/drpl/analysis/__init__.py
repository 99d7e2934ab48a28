"""What a data set or a finished run is made of, seen from close by.

Class activation maps, linear probes, detectors on finished runs, and the doctor's look at data and
their features live here. It imports encoders, runs and the report's figures; experiments, cleaning
and the command line import it.
"""
