"""The stage, its feed, its schedule, the only loop and its one step.

What an algorithm is made of lives here, and nothing of any single algorithm. It imports data and
config; methods and runs import it.
"""
