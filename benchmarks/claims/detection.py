"""How well wrong labels are found."""

from collections.abc import Callable

from benchmarks.claims.cases import UNIFORM, Found, find_drpl, judge, list_places
from benchmarks.lookup import KINDS, PUBLISHED, Figure, Ground, Results, Where


def find_detection(results: Results) -> Found:
    """DRPL's loss finds wrong labels better than that of C and M, and better than TS and NL."""
    for ground, name, where in list_places(results):
        figures = {
            "DRPL": find_drpl(results, ground, where, "auroc"),
            "C": results.find_mean(ground.file(), "auroc", {**where, "method": "cross_entropy"}),
            "M": results.find_mean(ground.file(), "auroc", {**where, "method": "mixup"}),
            "TS": find_agreed(results, ground, where, "auroc"),
            "NL": results.find_mean(ground.file(), "auroc", {**where, "method": "nlnl"}),
        }
        yield from judge(name, figures, lambda ours, *others: ours > max(others))


def find_agreed(results: Results, ground: Ground, where: Where, column: str) -> Figure | None:
    """A figure of TS, the detector on runs of cross-entropy."""
    if ground.folder == PUBLISHED:
        return results.find_mean(PUBLISHED, column, {**where, "method": "two_stage"})
    mine = {**where, "method": "cross_entropy", "stage": "train", "detector": "two_stage"}
    return results.find_mean(ground.file("detectors"), column, mine)


def find_decision(results: Results) -> Found:
    """At its own threshold DRPL keeps more clean labels than TS and NL do at theirs."""
    for ground, name, where in list_places(results):
        figures: dict[str, Figure | None] = {}
        for column in ("tpr", "fpr"):
            figures |= {
                f"{column.upper()} of DRPL": find_drpl(results, ground, where, column),
                f"{column.upper()} of NL": results.find_mean(
                    ground.file(), column, {**where, "method": "nlnl"}
                ),
                f"{column.upper()} of TS": find_agreed(results, ground, where, column),
            }
        yield from judge(name, figures, lambda ours, nl, ts, *_: ours > max(nl, ts))


def match_levels(results: Results, ground: Ground) -> dict[str, list[str]]:
    """By kind: the highest non-uniform level, and the uniform ones around it, 40 and 60 %."""
    found = {}
    for kind in KINDS:
        levels = results.list_levels(ground, kind)
        top = max(levels.values(), default=0)
        wanted = (0.4, 0.6) if kind in UNIFORM else (top,)
        if chosen := [noise for noise, rate in levels.items() if rate in wanted]:
            found[kind] = chosen
    return found if "ood-nonuniform" in found and len(found) > 1 else {}


def compare_kinds(
    results: Results, find: Callable[[Ground, Where], Figure | None], rule: Callable[..., bool]
) -> Found:
    """A figure under NU-OOD noise, which comes first, beside that under the other kinds."""
    for ground in results.list_grounds():
        levels = match_levels(results, ground)
        order = sorted(levels, key=lambda kind: kind != "ood-nonuniform")
        figures = {
            KINDS[kind]: find(ground, {"dataset": ground.dataset, "noise": levels[kind]})
            for kind in order
        }
        if figures:
            yield from judge(ground.title, figures, rule)


def find_hardest(results: Results) -> Found:
    """NU-OOD noise is the hardest to detect."""

    def find(ground: Ground, where: Where) -> Figure | None:
        return find_drpl(results, ground, where, "fpr")

    return compare_kinds(results, find, lambda ood, *rest: ood > max(rest))


def find_harmless(results: Results) -> Found:
    """NU-OOD noise is the least harmful: mixup, which believes every label, loses least."""

    def find(ground: Ground, where: Where) -> Figure | None:
        return results.find_mean(ground.file(), "accuracy_last", {**where, "method": "mixup"})

    return compare_kinds(results, find, lambda ood, *rest: ood > max(rest))
