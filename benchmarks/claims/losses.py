"""Which labels networks fit first, and how far their losses part."""

from collections.abc import Mapping

from benchmarks.claims.cases import ALIKE, MEMORISED, UNIFORM, Found, find_drpl, judge, list_places
from benchmarks.lookup import PEOPLE, Results


def find_fitted_first(results: Results) -> Found:
    """Clean labels are fitted before noisy ones, by plain cross-entropy."""
    file = f"{MEMORISED}/fitted.csv"
    for noise in results.list_values(file, "noise"):
        figures = {
            f"{whose} labels fitted": results.find_mean(file, f"{whose} fitted", {"noise": noise})
            for whose in ("clean", "noisy")
        }
        name = f"Fashion-MNIST (600 images), {noise}"
        yield from judge(name, figures, lambda clean, noisy: clean > noisy)


def find_parting(results: Results) -> Found:
    """Cross-entropy's loss parts less under non-uniform noise than under as much uniform noise."""
    for ground in results.list_grounds():
        for alike, uniform in zip(ALIKE, UNIFORM, strict=True):
            pairs = pair_levels(*(results.list_levels(ground, kind) for kind in (alike, uniform)))
            for pair in pairs:
                figures = {
                    head: results.find_mean(
                        ground.file(),
                        "auroc",
                        {"dataset": ground.dataset, "noise": noise, "method": "cross_entropy"},
                    )
                    for head, noise in zip(("non-uniform", "uniform"), pair, strict=True)
                }
                name = f"{ground.title}, {pair[0]} and {pair[1]}"
                yield from judge(name, figures, lambda one, other: one < other)


def pair_levels(alike: Mapping[str, float], uniform: Mapping[str, float]) -> list[tuple[str, str]]:
    """The highest non-uniform level with the next uniform one above it, and with the highest."""
    if not alike or not uniform:
        return []
    most = max(alike, key=alike.__getitem__)
    above = sorted((n for n, r in uniform.items() if r >= alike[most]), key=uniform.__getitem__)
    return list(dict.fromkeys((most, noise) for noise in (*above[:1], *above[-1:])))


def find_relabelled(results: Results) -> Found:
    """The loss of the relabelling stage parts better than cross-entropy's, under hard noise."""
    for ground, name, where in list_places(results, (*ALIKE, PEOPLE)):
        plain = {**where, "method": "cross_entropy", "stage": "train"}
        stage = {**where, "stage": "relabel"}
        figures = {
            "cross-entropy": results.find_mean(ground.file("stages"), "auroc", plain),
            "relabelling": find_drpl(results, ground, stage, "auroc", "stages"),
        }
        yield from judge(name, figures, lambda plain, relabelled: relabelled > plain)


def find_sharpened(results: Results) -> Found:
    """The loss of stage 2 parts better than that of stage 1."""
    for ground, name, where in list_places(results):
        figures = {
            title: find_drpl(results, ground, {**where, "stage": stage}, "auroc", "stages")
            for title, stage in (("stage 1", "relabel"), ("stage 2", "detect"))
        }
        yield from judge(name, figures, lambda first, second: second > first)


def find_taught(results: Results) -> Found:
    """In stage 1 networks learn their own pseudo-labels, and not the labels that were given."""
    file, stage = f"{MEMORISED}/losses.csv", {"method": "drpl", "stage": "relabel"}
    last = max(results.list_values(file, "epoch", stage), default=0)
    for noise in results.list_values(file, "noise", stage):
        where = {**stage, "noise": noise, "epoch": last}
        figures = {
            title: results.find_mean(file, column, where)
            for title, column in (
                ("by pseudo-labels", "accuracy by targets"),
                ("by given labels", "accuracy by labels"),
            )
        }
        name = f"Fashion-MNIST (600 images), {noise}"
        yield from judge(name, figures, lambda taught, given: taught > given)
