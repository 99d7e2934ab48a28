"""What makes a cleaning itself doubtful: it stands before everything that was found.

Where it casts doubt on the rate, the rate is widened: networks that have learnt little contradict
labels because they do not know better, so it may be that no label is wrong. Only on pixels, for on
features the rate comes from the leave-one-out classifier, whatever the networks did.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drpl.cleaning.estimate import Rate
from drpl.cleaning.judge import Judgement
from drpl.runs.folder import Result

CONTRADICTED = 0.6  # share of contradicted labels from which on nothing is sure
FEWEST_STEPS = {"images": 500, "vectors": 100}  # below which networks have hardly learnt; a guess
WIDENED = "so it may be that no label is wrong, and the rate below begins at 0"


@dataclass(frozen=True)
class Doubts:
    """Sentences without their full stop, and whether they are on the rate."""

    texts: list[str]
    on_rate: bool

    def widen(self, run: Judgement) -> Judgement:
        """The judgement with a rate that begins at 0, if the doubts are on it."""
        if not self.on_rate:
            return run
        wider = replace(run)
        # It is a cached property: this is what it gives from now on.
        vars(wider)["rate"] = Rate(run.rate.value, 0.0, run.rate.high)
        return wider


def find_doubts(run: Judgement, runs: Sequence[Result], batch: int, *, pixels: bool) -> Doubts:
    """What is doubtful about finished runs and the judgement by all of them together."""
    notes = Counter(note for one in runs for note in one.summary["stages"][-1]["notes"])
    vague = [f"{note}{_say_how_often(count, len(runs))}" for note, count in notes.items()]
    useless = _note_contradictions(run)
    fewest = FEWEST_STEPS["images" if pixels else "vectors"]
    brief = _note_few_steps(runs[0].summary["images"] // batch, fewest)
    on_rate = pixels and bool(brief or (useless and vague)) and run.rate.high < 1
    return Doubts([*useless, *vague, *brief, *([WIDENED] if on_rate else [])], on_rate)


def _say_how_often(count: int, runs: int) -> str:
    return f" ({count} of {runs} runs)" if runs > 1 else ""


def _note_contradictions(run: Judgement) -> list[str]:
    """Whether the predictions are of any use."""
    if not CONTRADICTED <= run.rate.high < 1:
        return []
    return [
        f"the predictions contradict {run.rate.high:.0%} of the labels, so they are of little use "
        "here: what is wrong cannot be told from what was not learnt"
    ]


def _note_few_steps(steps: int, fewest: int) -> list[str]:
    """Whether the networks had time to learn."""
    if steps >= fewest:
        return []
    return [
        f"the networks were trained for {steps:,} steps only, too few to learn much: give it more "
        "time, or more images"
    ]
