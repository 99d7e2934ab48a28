"""Networks, built by name, from other packages, or by a function of the user's.

What a network computes between its layers (features by depth, class activation maps) is here too.
It imports only the ground modules; runs, methods and analysis import it.
"""
