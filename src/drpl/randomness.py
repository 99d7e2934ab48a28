"""Every random draw comes from a key, so nothing random has to be stored.

`rng(seed, "relabel", 12, "order")` gives the same numbers today, after a restart, on another
device and in another process.
"""

import hashlib

from torch import Generator

Key = tuple[int | str, ...]


def derive(*key: int | str) -> int:
    """A 63-bit number that depends on every part of the key and on nothing else."""
    hashed = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(hashed, "big") >> 1


def rng(*key: int | str) -> Generator:
    """A CPU generator for this key."""
    return Generator().manual_seed(derive(*key))
