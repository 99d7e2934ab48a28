"""An attack on every command: kills, damaged files, arguments of all kinds, faults of the machine.

    make campaign                      # half an hour
    make campaign MINUTES=60
    python -m tests.campaign --seed 7 --seeds 20 --only kills --out build/campaign

A case that fails is kept as a folder with the command to run it again. Ten seeds run with the other
tests.
"""
