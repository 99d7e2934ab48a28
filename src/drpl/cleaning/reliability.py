"""How far `p_noisy` can be trusted: held against the truth, where it is known, or against people.

After a review the probabilities are those that the decisions calibrated, and how many wrong labels
each decision found is shown beside them.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import Decision
from drpl.cleaning.review.forecast import Forecaster
from drpl.cleaning.review.strata import Floats
from drpl.detection.calibration import calibration_error, measure_reliability
from drpl.files import read_arrays, read_text, write_if_changed
from drpl.report.page import Section
from drpl.report.reliability import draw_found, draw_reliability
from drpl.report.style import Picture

ENOUGH = 20  # decisions that say something of probabilities; named as a word below
BEFORE, AFTER = "before the review", "after it"
TITLE = "How far to trust the probabilities"
BEGIN, END = "<!-- trust -->", "<!-- /trust -->"  # where a review puts its own into the report


def build_trust(cleaned: CleanedFolder, decisions: Mapping[int, Decision]) -> Section:
    """The part of the report."""
    return Section(TITLE, f"{BEGIN}{_describe(cleaned, decisions)}{END}")


def update_report(cleaned: CleanedFolder, decisions: Mapping[int, Decision]) -> None:
    """Put what the decisions say into the report that `drpl clean` wrote, if it is there."""
    path = cleaned.folder / "report.html"
    if not path.is_file() or not (cleaned.folder / "samples.npz").is_file():
        return
    before, begin, rest = read_text(path).partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:  # else an older version wrote it
        write_if_changed(path, f"{before}{BEGIN}{_describe(cleaned, decisions)}{END}{after}")


def _describe(cleaned: CleanedFolder, decisions: Mapping[int, Decision]) -> str:
    """Text and figures, where there is a truth or a review to hold probabilities against."""
    truth = read_truth(cleaned)
    if truth is None and len(decisions) < ENOUGH:
        return "<p>Not known yet: that takes twenty decisions with <code>drpl review</code>.</p>"
    forecaster = Forecaster(cleaned)
    decided = forecaster.find_wrong(decisions)
    wrong = decided if truth is None else truth
    known = np.isfinite(wrong)
    believed = {BEFORE: cleaned.samples["p_noisy"].to_numpy(float)}
    if decisions:
        believed[AFTER] = forecaster.learn(decisions).p_noisy
    measured = {
        f"{name}: {calibration_error(p[known], wrong[known]):.3f}": measure_reliability(
            p[known], wrong[known]
        )
        for name, p in believed.items()
    }
    pictures = [draw_reliability("reliability", measured)]
    if decisions:
        order = cleaned.samples.index.get_indexer(pd.Index(list(decisions), dtype="int64"))
        pictures.append(draw_found("found", {"this review": np.cumsum(decided[order])}))
    held = "the truth" if truth is not None else f"{int(known.sum()):,} decisions"
    rough = "" if truth is not None else " A dot may stand for one or two decisions only."
    text = (
        f"<p>Of labels that are called 70 % likely wrong, 70 in 100 should be. Held against "
        f"{held}: each dot is a tenth of the scale, larger where there are more images. The number "
        f"is how far both shares are apart, the expected calibration error.{rough}</p>"
    )
    return text + "".join(map(_show, pictures))


def read_truth(cleaned: CleanedFolder) -> Floats | None:
    """Which labels are wrong, where the data set says so. [N]"""
    table = read_arrays(cleaned.folder / "samples.npz")
    return table["wrong"].astype(float) if "wrong" in table else None


def _show(picture: Picture) -> str:
    drawing = picture.render_svg()
    return f'<figure style="--wide:{picture.wide}px"><div class="drawing">{drawing}</div></figure>'
