"""How accurate the models are."""

from collections.abc import Iterator

from benchmarks.claims.cases import RIVALS, Found, find_drpl, judge, list_places
from benchmarks.lookup import HUMAN, KINDS, Ground, Results, Where

LITTLE = 1.0  # points between best and last that count as little


def find_first(results: Results, places: Iterator[tuple[Ground, str, Where]]) -> Found:
    """DRPL is more accurate than every other method of the paper's tables."""
    for ground, name, where in places:
        figures = {
            "DRPL": find_drpl(results, ground, where, "accuracy_last"),
            "best other": results.find_best(ground.file(), "accuracy_last", where, RIVALS),
        }
        yield from judge(name, figures, lambda ours, other: ours > other)


def find_first_cifar(results: Results) -> Found:
    """The table of CIFAR-10."""
    return find_first(
        results,
        (place for place in list_places(results, tuple(KINDS)) if place[0].dataset == "cifar10"),
    )


def find_first_four(results: Results) -> Found:
    """The tables of ImageNet32 and ImageNet64: four noises."""
    return find_first(
        results, (place for place in list_places(results) if place[0].dataset != "cifar10")
    )


def find_gap(results: Results) -> Found:
    """DRPL's last accuracy is hardly below its best."""
    for ground, name, where in list_places(results, tuple(KINDS)):
        mixup = {**where, "method": "mixup"}
        figures = {
            f"DRPL, {key}": find_drpl(results, ground, where, f"accuracy_{key}")
            for key in ("best", "last")
        }
        figures |= {
            f"mixup, {key}": results.find_mean(ground.file(), f"accuracy_{key}", mixup)
            for key in ("best", "last")
        }
        yield from judge(name, figures, is_little)


def is_little(best: float, last: float, mixup_best: float, mixup_last: float) -> bool:
    """At most a point, or less than half of what mixup loses."""
    return best - last <= max(LITTLE, (mixup_best - mixup_last) / 2)


def find_low_noise(results: Results) -> Found:
    """Without noise DRPL, which still sets labels aside, is behind mixup."""
    for ground in results.list_grounds():
        if ground.dataset.startswith(HUMAN):
            continue  # nobody knows how to read it without its noise
        where = {"dataset": ground.dataset, "noise": ["none"]}
        mixup = {**where, "method": "mixup"}
        figures = {
            "DRPL": find_drpl(results, ground, where, "accuracy_best"),
            "mixup": results.find_mean(ground.file(), "accuracy_best", mixup),
        }
        yield from judge(ground.title, figures, lambda ours, mixup: ours < mixup)


def find_oracles(results: Results) -> Found:
    """Knowing which labels are wrong is worth more than knowing the noise's matrix."""
    for ground, name, where in list_places(results, ("nonuniform", "uniform")):
        figures = {
            title: results.find_mean(ground.file(), "accuracy_best", {**where, "method": method})
            for title, method in (
                ("oracle SSL", "oracle_ssl"),
                ("oracle forward", "oracle_forward"),
            )
        }
        yield from judge(name, figures, lambda ssl, forward: ssl > forward)
