"""One experiment in one folder: from the two records it is made of to the files it leaves.

Experiment and Execution, what a method sees of them (Run), who carries it out (a driver, for real
or dry), the folder, the model and its export live here. It imports data, noise, networks, training
and detection, and methods by their registered name only; everything that shows or compares runs
imports it.
"""
