"""Every method on the tiny problem, to be run by torchrun: `-m tests.runs.two_processes FOLDER`."""

import sys
from pathlib import Path

import drpl
from drpl.distributed import leave, processes
from drpl.registry import METHODS
from tests.support.tiny import tiny_config, tiny_data, tiny_network

if __name__ == "__main__":
    with processes():
        for method in METHODS:
            drpl.train(
                tiny_data(),
                method=method,
                config=tiny_config(method, 2),
                network=tiny_network,
                noise="uniform:0.3",
                out=Path(sys.argv[1]) / method,
                quiet=True,
            )
    leave(0)
