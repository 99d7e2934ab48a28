"""`python -m tests.campaign`: attack for as long as is asked for, and count."""

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.campaign.attacks import ATTACKS, Tally
from tests.campaign.running import import_all
from tests.campaign.scenes import build_scene

# In turn: one attack is up to four kills, one damaged file, one command line or one fault.
TURNS = ("kills", *["damage", "arguments"] * 3, "faults")
OFTEN = 60  # seconds after which the counts are shown


def main() -> int:
    """The exit code is 1 if anything went wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seeds", type=int, default=0, help="how many; 0: for those minutes")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--only", choices=list(ATTACKS), help="[default: each in turn]")
    parser.add_argument("--out", type=Path, default=Path("build/campaign"))
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    ends = time.monotonic() + 60 * asked.minutes
    shutil.rmtree(asked.out, ignore_errors=True)
    import_all()
    scene = build_scene(asked.out.resolve() / "scene")
    tally, forked = Tally(), multiprocessing.get_context("fork")
    with ProcessPoolExecutor(asked.workers, forked) as pool:
        for one in [pool.submit(attack, k, scene, asked, ends) for k in range(asked.workers)]:
            tally.add(one.result())
    sys.stdout.write(f"{tally.describe()}\n{len(tally.failures)} failures\n")
    return int(bool(tally.failures))


def attack(worker: int, scene: Path, asked: argparse.Namespace, ends: float) -> Tally:
    """What one of the workers does: every so many-th seed."""
    tally, shown = Tally(), time.monotonic()
    for turn in range(sys.maxsize):
        number = asked.seed + worker + turn * asked.workers
        if number >= asked.seed + asked.seeds if asked.seeds else time.monotonic() > ends:
            break
        name = asked.only or TURNS[(asked.seed + worker + turn) % len(TURNS)]
        where, before = scene.parent / f"{name}-{number}", len(tally.failures)
        ATTACKS[name](scene, where, random.Random(f"{name} {number}"), tally)
        if len(tally.failures) == before:
            shutil.rmtree(where)
        if time.monotonic() > shown + OFTEN:
            shown = time.monotonic()
            left = f"{(ends - shown) / 60:.0f} minutes left" if not asked.seeds else f"at {number}"
            sys.stderr.write(f"worker {worker}, {left}: {tally.describe()}\n")
    return tally


if __name__ == "__main__":
    sys.exit(main())
