"""From what a network says of the samples to the labels that are probably wrong.

Evidence, mixtures, splits, metrics and detectors live here; a detector is a function of evidence
and given labels whose score has one meaning: the higher, the noisier. It imports only the ground;
methods, runs and whatever judges finished runs import it.
"""
