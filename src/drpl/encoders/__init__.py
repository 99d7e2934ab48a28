"""Pretrained networks that turn images into vectors, and the store of what they made.

It imports the ground, data and networks; runs, cleaning and the command line import it.
`data.sources.load` finds it by the registry, so that any data set can be read as features.
"""
