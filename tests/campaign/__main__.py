"""`python -m tests.campaign`: attack for as long as is asked for, and count."""

import argparse
import random
import shutil
import sys
import time
from pathlib import Path

from tests.campaign.attacks import ATTACKS, Tally
from tests.campaign.running import import_all
from tests.campaign.scenes import build_scene

# In turn: one attack is up to four kills, one damaged file, one command line or one fault.
TURNS = ("kills", *["damage", "arguments"] * 3, "faults", *["damage", "arguments"] * 3)
OFTEN = 60  # seconds after which the counts are shown


def main() -> int:
    """The exit code is 1 if anything went wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seeds", type=int, default=0, help="how many; 0: for those minutes")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--only", choices=list(ATTACKS), help="[default: each in turn]")
    parser.add_argument("--out", type=Path, default=Path("build/campaign"))
    asked = parser.parse_args()
    home = asked.out.resolve()
    shutil.rmtree(home, ignore_errors=True)
    tally, began, shown, number = Tally(), time.monotonic(), 0.0, asked.seed
    import_all()
    scene = build_scene(home / "scene")
    while number - asked.seed < asked.seeds if asked.seeds else passed(began) < 60 * asked.minutes:
        name = asked.only or TURNS[number % len(TURNS)]
        where, before = home / f"{name}-{number}", len(tally.failures)
        ATTACKS[name](scene, where, random.Random(f"{name} {number}"), tally)
        if len(tally.failures) == before:
            shutil.rmtree(where)
        number += 1
        if passed(began) > shown + OFTEN:
            shown = passed(began)
            sys.stderr.write(f"{shown / 60:.0f} min: {tally.describe()}\n")
    sys.stdout.write(f"{tally.describe()}\n{len(tally.failures)} failures\n")
    return int(bool(tally.failures))


def passed(began: float) -> float:
    """Seconds since then."""
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
