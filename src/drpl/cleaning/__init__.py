"""What a person does with doubtful data: find wrong labels, look at them, decide, correct them.

It may import `runs`, `report`, `config`, `data`, `training`, `detection` and the ground; it reaches
the method through the registry. Only `cli`, `benchmarks` and a user's own code import it.
"""
