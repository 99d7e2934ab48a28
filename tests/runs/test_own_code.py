"""Functions of users' own are told apart, also where they share a file or a text."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import drpl
from drpl.config.settings import Common
from drpl.data.dataset import DatasetSplits
from drpl.errors import ConfigError, RunError
from drpl.methods import cross_entropy
from drpl.runs.own_code import identify_own, name_own
from tests.support.tiny import tiny_config, tiny_network


def trusting(run: drpl.Run, config: Any) -> drpl.Outcome:
    return cross_entropy.train(run, config.model_copy(update={"threshold": 0.9}))


def doubtful(run: drpl.Run, config: Any) -> drpl.Outcome:
    return cross_entropy.train(run, config.model_copy(update={"threshold": 0.1}))


def make_network(width: int) -> Callable[[tuple[int, ...], int], nn.Module]:
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(shape[0] * shape[1] * shape[2], width),
            nn.Linear(width, classes),
        )

    return build


class Built:
    def __init__(self, width: int) -> None:
        self.width, self.unstable = width, object()

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return make_network(self.width)(shape, classes)


def build_wide(shape: tuple[int, ...], classes: int, width: int = 8) -> nn.Module:
    return make_network(width)(shape, classes)


def test_two_methods_in_one_file_have_folders_and_results_of_their_own(
    tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tiny_config("cross_entropy", 1)
    results = [
        drpl.train(
            tiny, method=own, config=config, network=tiny_network, noise="uniform:0.3", quiet=True
        )
        for own in (trusting, doubtful)
    ]
    assert len({result.folder for result in results}) == 2
    assert [run.method for run in results] == ["test_own_code-trusting", "test_own_code-doubtful"]
    with pytest.raises(RunError, match="was made by another method of your own than it was now"):
        drpl.train(tiny, method=lambda run, config: trusting(run, config), config=config,
                   network=tiny_network, noise="uniform:0.3", out=rename(results[0].folder),
                   quiet=True)  # fmt: skip


def rename(folder: Path) -> Path:
    """The folder as if a method of the name of a lambda function had made it."""
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("test_own_code-trusting", "test_own_code--lambda-"))
    return folder


def test_another_network_is_not_answered_with_the_first_ones_result(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    def train(width: int) -> drpl.Result:
        config = tiny_config("cross_entropy", 1)
        return drpl.train(tiny, method="cross_entropy", config=config, network=make_network(width),
                          out=tmp_path, quiet=True)  # fmt: skip

    first = train(4)
    assert train(4).summary == first.summary  # the same one goes on
    with pytest.raises(RunError, match="by another network of your own than it was now given"):
        train(5)


def test_a_run_of_an_earlier_version_is_taken_as_it_is(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("cross_entropy", 1)
    asked: Any = {"config": config, "network": tiny_network, "out": tmp_path, "quiet": True}
    first = drpl.train(tiny, method="cross_entropy", **asked)
    path = tmp_path / "config.toml"
    lines = [line for line in path.read_text().splitlines() if "network_source" not in line]
    path.write_text("\n".join(lines))
    assert drpl.train(tiny, method="cross_entropy", **asked).summary == first.summary


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (trusting, doubtful),
        (make_network(4), make_network(5)),
        (Built(4), Built(5)),
        (Built(4).__call__, Built(5).__call__),
        (partial(build_wide, width=4), partial(build_wide, width=5)),
        (partial(build_wide, width=4), build_wide),
        (Built(4), make_network(4)),
    ],
)
def test_functions_are_told_apart(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    assert identify_own(one) != identify_own(other)


def test_equal_functions_are_the_same() -> None:
    assert identify_own(make_network(4)) == identify_own(make_network(4))
    assert identify_own(Built(4)) == identify_own(Built(4))
    assert identify_own(partial(build_wide, width=4)) == identify_own(partial(build_wide, width=4))


def test_the_usual_name_stands_for_its_file() -> None:
    assert name_own(cross_entropy.train) == "cross_entropy"
    assert name_own(partial(trusting)) == "test_own_code-trusting"


def test_a_function_without_a_text_is_told_by_its_instructions() -> None:
    made: dict[str, Any] = {}
    for name, source in (("one", "x + 1"), ("two", "x + 2")):
        exec(f"def f(x): return {source}", space := {"__name__": "typed"})
        made[name] = space["f"]
    assert identify_own(made["one"]) != identify_own(made["two"])


def test_settings_lie_over_a_config(tiny: DatasetSplits) -> None:
    config: Any = tiny_config("cross_entropy", 3)
    given: Any = {"method": "cross_entropy", "config": config}
    built = drpl.Experiment.build(tiny, **given, settings={"schedule.epochs": 2, "flip": False})
    wanted: Common = config.model_copy(
        update={"flip": False, "schedule": config.schedule.model_copy(update={"epochs": 2})}
    )
    assert built.config == wanted
    assert drpl.Experiment.build(tiny, **given).config is config
    with pytest.raises(ConfigError, match="settings"):
        drpl.Experiment.build(tiny, **given, settings={"no_such": 1})
    with pytest.raises(ConfigError, match=r"has every setting; leave out preset="):
        drpl.Experiment.build(tiny, **given, preset="small")
