"""What a person does with doubtful data: find wrong labels, look at them, decide, correct them.

It may import `runs`, `report`, `config`, `data`, `noise`, `training`, `detection` and the ground,
and reaches the method through the registry. Only `cli`, `benchmarks` and a user's code import it.
"""
