"""Threads, where there is memory for them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

RESERVE = 2**24  # bytes for each: its stack, and as much again


def start_threads(count: int) -> ThreadPoolExecutor:
    """So many threads, or a MemoryError where there is no room for them.

    Python would wait for ever for a thread whose memory ends as it starts.
    """
    np.empty(count * RESERVE, np.uint8)  # reserved, never touched, and given back at once
    return ThreadPoolExecutor(count)
