"""How far `p_noisy` can be trusted: held against the truth, where it is known, or against people.

After a review the probabilities are those that the decisions calibrated, and how many wrong labels
each decision found is shown beside them.
"""

from collections.abc import Mapping

import numpy as np

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import Decision
from drpl.cleaning.review.forecast import Forecaster
from drpl.cleaning.review.strata import Floats
from drpl.detection.calibration import calibration_error, measure_reliability
from drpl.files import read_arrays
from drpl.report.page import Section
from drpl.report.reliability import draw_found, draw_reliability
from drpl.report.style import Picture

ENOUGH = 20  # decisions that say something of probabilities
BEFORE, AFTER = "before the review", "after it"


def build_reliability(cleaned: CleanedFolder, decisions: Mapping[int, Decision]) -> list[Section]:
    """The part of the report, where there is a truth or a review to hold against."""
    truth = read_truth(cleaned)
    if truth is None and len(decisions) < ENOUGH:
        return []
    forecaster = Forecaster(cleaned)
    decided = forecaster.find_wrong(decisions)
    wrong = decided if truth is None else truth
    known = np.isfinite(wrong)
    believed = {BEFORE: cleaned.samples["p_noisy"].to_numpy(float)}
    if decisions:
        believed[AFTER] = forecaster.learn(decisions).p_noisy
    errors = {name: calibration_error(p[known], wrong[known]) for name, p in believed.items()}
    measured = {
        f"{name}, off by {errors[name]:.3f}": measure_reliability(p[known], wrong[known])
        for name, p in believed.items()
    }
    pictures = [draw_reliability("reliability", measured)]
    if decisions:
        order = cleaned.samples.index.get_indexer(list(decisions))
        pictures.append(draw_found("found", {"this review": np.cumsum(decided[order])}))
    held = "the truth" if truth is not None else f"{int(known.sum()):,} decisions"
    text = (
        f"<p>Of labels that are said to be wrong with 70 %, 70 in 100 should be. Held against "
        f"{held}; dots are tenths of the scale, larger where there are more images, and the number "
        "is how far both shares are apart on average (expected calibration error).</p>"
    )
    return [Section("How far to trust the probabilities", text + "".join(map(_show, pictures)))]


def read_truth(cleaned: CleanedFolder) -> Floats | None:
    """Which labels are wrong, where the data set says so. [N]"""
    table = read_arrays(cleaned.folder / "samples.npz")
    return table["wrong"].astype(float) if "wrong" in table else None


def _show(picture: Picture) -> str:
    drawing = picture.render_svg()
    return f'<figure style="--wide:{picture.wide}px"><div class="drawing">{drawing}</div></figure>'
