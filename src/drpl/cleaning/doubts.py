"""What makes a cleaning itself doubtful: it stands before everything that was found.

Where it casts doubt on the rate, the rate begins at 0 and nothing is listed: networks that have
learnt little contradict labels because they do not know better, so it may be that no label is
wrong. Only on pixels, for on features the rate comes from the leave-one-out classifier, whatever
the networks did.
"""

from collections import Counter
from collections.abc import Sequence

from drpl.cleaning.judge import Judgement
from drpl.cleaning.plan import Doubts
from drpl.runs.folder import Result

CONTRADICTED = 0.6  # share of contradicted labels from which on nothing is sure


def find_doubts(run: Judgement, runs: Sequence[Result], early: Doubts, *, pixels: bool) -> Doubts:
    """What is doubtful about finished runs and the judgement by all of them together.

    `early` are the doubts that there were before any training.
    """
    notes = Counter(note for one in runs for note in one.summary["stages"][-1]["notes"])
    vague = [f"{note}{_say_how_often(count, len(runs))}" for note, count in notes.items()]
    useless = _note_contradictions(run)
    on_rate = pixels and bool(early.on_rate or (useless and vague)) and run.rate.high < 1
    return Doubts([*useless, *vague, *early.texts], on_rate)  # the rate says what follows from it


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
