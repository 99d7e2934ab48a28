"""Claims that are not the paper's: what this library adds."""

from benchmarks.claims.cases import LITERAL, OURS, Found, judge, list_places
from benchmarks.lookup import Results


def find_human(results: Results) -> Found:
    """On labels that people got wrong DRPL is first of all detectors, on the same features."""
    file = "benchmarks/results/humans/table.csv"
    most = max(results.list_values(file, "samples"), default=0)
    for labels in results.list_values(file, "labels", {"samples": most}):
        where = {"labels": labels, "samples": most}
        others = [
            results.find_mean(file, "auroc", {**where, "detector": name}, name)
            for name in results.list_values(file, "detector", where)
            if name != "DRPL"
        ]
        best = max((one for one in others if one), key=lambda one: one.value, default=None)
        ours = results.find_mean(file, "auroc", {**where, "detector": "DRPL"})
        figures = {"DRPL": ours, "best other": best}
        title = f"CIFAR-10N {labels.removesuffix('_label')}, features"
        yield from judge(title, figures, lambda one, other: one > other)


def find_pooled(results: Results) -> Found:
    """The mean loss of both stages is at least as good as the better of them."""
    for ground, name, where in list_places(results):
        figures = {
            title: results.find_mean(
                ground.file("stages"), "auroc", {**where, "method": OURS, "stage": stage}
            )
            for title, stage in (("mean", "pooled"), ("stage 1", "relabel"), ("stage 2", "detect"))
        }
        yield from judge(name, figures, lambda mean, *stages: mean >= max(stages))


def find_more_found(results: Results) -> Found:
    """DRPL with our additions finds more wrong labels than the paper's own."""
    return compare_ours(results, "auroc")


def find_more_accurate(results: Results) -> Found:
    """DRPL with our additions is more accurate than the paper's own."""
    return compare_ours(results, "accuracy_last")


def compare_ours(results: Results, column: str) -> Found:
    """A figure of both."""
    for ground, name, where in list_places(results):
        figures = {
            title: results.find_mean(ground.file(), column, {**where, "method": method})
            for title, method in (("ours", OURS), ("literal", LITERAL))
        }
        yield from judge(name, figures, lambda ours, literal: ours > literal)


def find_scratch(results: Results) -> Found:
    """From scratch DRPL finds as much as the small loss does with as many images shown."""
    file = "benchmarks/results/humans/scratch.csv"
    ways = {
        "as the runs judge": {"mean over": "the run itself", "score": "loss"},
        "margins of all predictions": {"mean over": "all", "score": "margin"},
    }
    for way, chosen in ways.items():
        # DRPL by both stages together, where the stages stand apart, too.
        own = {"method": "drpl:fast", "stage": ["pooled", "both"], **chosen}
        figures = {
            "DRPL": results.find_mean(file, "auroc", own),
            "small loss": results.find_mean(
                file, "auroc", {"method": "cross_entropy:fast", **chosen}
            ),
        }
        title = f"CIFAR-10N worse, {way}"
        yield from judge(title, figures, lambda ours, small: ours >= small)
