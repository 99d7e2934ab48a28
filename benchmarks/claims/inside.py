"""What noise does inside a network: features by depth, and class maps."""

from collections.abc import Iterator

from benchmarks.claims.cases import MEMORISED, Found, judge
from benchmarks.lookup import Figure, Results

PROBES = "benchmarks/results/probes/probes.csv"
ALL_DEGRADE = "uniform:0.8"  # the noise for which the paper says so
PROBED = 2.0  # points that a probe must lose to count as degraded


def list_probed(results: Results) -> Iterator[tuple[str, str, str]]:
    """File, noise and title of every noise that networks were probed under."""
    for file, title in (
        (f"{MEMORISED}/probes.csv", "Fashion-MNIST (600 images)"),
        (PROBES, "imagenet32-mini"),
    ):
        for noise in results.list_values(file, "noise"):
            if noise != "none":
                yield file, noise, title


def find_depth(results: Results) -> Found:
    """Features after the last block degrade, those before it do not."""
    for file, noise, title in list_probed(results):
        if noise == ALL_DEGRADE:
            continue  # a claim of its own
        for method, short in (("mixup", "M"), ("drpl", "O")):
            figures = probe_blocks(results, file, noise, method)
            yield from judge(f"{title}, {noise}, {short}", figures, loses_last)


def probe_blocks(results: Results, file: str, noise: str, method: str) -> dict[str, Figure | None]:
    """Accuracy of probes after blocks 1 to 3 and after the last: clean labels, noisy ones."""
    blocks = {"blocks 1 to 3": [1, 2, 3], "block 4": [4]}
    return {
        f"{title}, {label}": results.find_mean(
            file, "accuracy", {"noise": given, "method": learner, "block": numbers}
        )
        for title, numbers in blocks.items()
        for label, given, learner in (("clean", "none", "mixup"), ("noisy", noise, method))
    }


def loses_last(clean: float, noisy: float, last_clean: float, last_noisy: float) -> bool:
    """The last block loses something, and at least twice as much as the others."""
    lost = last_clean - last_noisy
    return lost > 0 and lost >= 2 * (clean - noisy)


def find_depth_at_most(results: Results) -> Found:
    """With 80 % uniform noise all blocks degrade."""
    for file, noise, title in list_probed(results):
        if noise == ALL_DEGRADE:
            figures = probe_blocks(results, file, noise, "mixup")
            yield from judge(f"{title}, {noise}, M", figures, loses_all)


def loses_all(clean: float, noisy: float, last_clean: float, last_noisy: float) -> bool:
    """Both lose more than a probe's own chance."""
    return min(clean - noisy, last_clean - last_noisy) > PROBED


def find_last_block(results: Results) -> Found:
    """After the last block DRPL's features are better than mixup's."""
    for file, noise, title in list_probed(results):
        figures = {
            short: results.find_mean(
                file, "accuracy", {"noise": noise, "method": method, "block": [4]}
            )
            for short, method in (("O", "drpl"), ("M", "mixup"))
        }
        yield from judge(f"{title}, {noise}", figures, lambda ours, mixup: ours > mixup)


def find_maps(results: Results) -> Found:
    """Of wrong labels that were kept, the map of the wrong one covers more of the image."""
    file = f"{MEMORISED}/maps.csv"
    for noise in results.list_values(file, "noise"):
        for title, where in (
            ("all that were kept", {"noise": noise}),
            ("those that the model predicts", {"noise": noise, "predicted": True}),
        ):
            figures = {
                "share with a wider map": results.find_mean(file, "wider", where),
                "area, given label": results.find_mean(file, "area of given", where),
                "area, true label": results.find_mean(file, "area of true", where),
            }
            name = f"Fashion-MNIST (600 images), {noise}: {title}"
            yield from judge(name, figures, lambda share, *_: share > 0.5)
