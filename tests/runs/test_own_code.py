"""Functions of users' own are told apart, also where they share a file or a text."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field
from torch import nn

import drpl
from drpl.config.settings import Common, Settings
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


def build_wide(shape: tuple[int, ...], classes: int, width: Any = 8) -> nn.Module:
    return make_network(width)(shape, classes)


class Size(Enum):
    SMALL = 4
    LARGE = 8


@dataclass
class Plan:
    width: int
    depth: int = 1


class Limits(Settings):
    low: float


@torch.no_grad()
def careful(run: drpl.Run, config: Any) -> drpl.Outcome:
    return trusting(run, config)


def scale(function: Callable[..., Any], factor: float) -> Callable[..., Any]:
    @wraps(function)
    def scaled(run: drpl.Run, config: Any) -> Any:
        return function(run, config.model_copy(update={"threshold": factor}))

    return scaled


class Locked:
    def __init__(self, width: int) -> None:
        self.lock, self.width = Lock(), width


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


OWN = """
import drpl
from drpl.methods import cross_entropy

SHIFT = 1.0

class Smoothed(drpl.Stage):
    power = 2

    def soften(self, targets):
        return targets * 0.5

    @property
    def limit(self):
        return min(self.power, 3)

    @classmethod
    def powers(cls):
        return [4 * power for power in range(5)]

def train(run, config):
    return cross_entropy.train(run, config)
"""


def import_from(folder: Path, name: str, text: str) -> ModuleType:
    """The module of that name, imported anew, with this text."""
    (folder / f"{name}.py").write_text(text)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def test_after_an_edit_beside_the_function_it_is_another_method(
    tiny: DatasetSplits, folder: Path
) -> None:
    asked: Any = {"config": tiny_config("cross_entropy", 1), "network": tiny_network}
    asked |= {"out": folder / "run", "quiet": True}
    first = drpl.train(tiny, method=import_from(folder, "mine", OWN).train, **asked)
    same = drpl.train(tiny, method=import_from(folder, "mine", OWN).train, **asked)
    assert same.summary == first.summary
    edited = import_from(folder, "mine", OWN.replace("targets * 0.5", "targets * 0.7"))
    with pytest.raises(RunError, match="was made by another method of your own"):
        drpl.train(tiny, method=edited.train, **asked)


EDITS = [("* 0.5", "* 0.7"), ("1.0", "2.0"), ("drpl.Stage", "object"), ("= 2", "= 3"), ("3)", "4)")]
EDITS += [("4 *", "5 *")]


@pytest.mark.parametrize("edit", EDITS)
def test_what_a_notebook_defines_elsewhere_counts(edit: tuple[str, str]) -> None:
    uses = OWN.replace("return cross", "Smoothed(SHIFT)\n    return cross")
    texts = (uses, uses.replace(*edit), f"\n{uses}")
    spaces: list[dict[str, Any]] = [{"__name__": "notebook"} for _ in texts]
    for text, space in zip(texts, spaces, strict=True):
        exec(compile(text, "<cell>", "exec"), space)
    one, other, moved = (identify_own(space["train"]) for space in spaces)
    assert one != other
    assert one == moved


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
        (lambda: build_wide((1,), 2), lambda: build_wide((1,), 3)),
        (scale(trusting, 0.5), scale(trusting, 0.9)),
        (scale(trusting, 0.5), scale(doubtful, 0.5)),
    ],
)
def test_functions_are_told_apart(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    assert identify_own(one) != identify_own(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.int64(4), np.int64(64)),
        (np.arange(3), np.arange(1, 4)),
        (torch.zeros(3), torch.ones(3)),
        (Plan(4), Plan(5)),
        (Limits(low=0.1), Limits(low=0.2)),
        (Size.SMALL, Size.LARGE),
        (Path("a"), Path("b")),
        ({"a", "b"}, {"a", "c"}),
        ([trusting], [doubtful]),
        (partial(build_wide, width=4), partial(build_wide, width=5)),
        (Locked(4), Locked(5)),
        (b"4", b"5"),
        (4, 4.0),
    ],
)
def test_values_are_told_apart(one: Any, other: Any) -> None:
    def identify(value: Any) -> list[str]:
        return [identify_own(partial(build_wide, width=value)), identify_own(make_network(value))]

    assert not set(identify(one)) & set(identify(other))
    assert identify(one) == identify(one)


def test_arguments_by_name_have_no_order() -> None:
    one, other = partial(build_wide, width=4, classes=3), partial(build_wide, classes=3, width=4)
    assert identify_own(one) == identify_own(other)


def test_a_function_may_refer_to_itself_and_to_what_is_not_there_yet() -> None:
    def descend(depth: int) -> Any:
        return descend(depth - 1) if depth else later

    early = identify_own(descend)
    later = 4
    assert identify_own(descend) != early


PROCESSES = """
import multiprocessing, sys
from functools import partial
from pathlib import Path
from drpl.runs.own_code import identify_own, name_own

class Plan:
    def __init__(self, width):
        self.width, self.kinds = width, {"a", "b", "c", "d"}

def train(run, config, plan): ...

def tell():
    made = partial(train, plan=Plan(4), where=Path("a"))
    print(__name__, name_own(made), identify_own(made), flush=True)

if __name__ == "__main__":
    tell()
    other = multiprocessing.get_context("spawn").Process(target=tell)
    other.start()
    other.join()
"""


def test_a_function_is_the_same_in_every_process(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_from(folder, "processes", PROCESSES).tell()
    command = [sys.executable, "processes.py"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    said = subprocess.check_output(command, cwd=folder, env=environment, text=True)
    lines = [line.split() for line in (capsys.readouterr().out + said).splitlines()]
    assert [line[0] for line in lines] == ["processes", "__main__", "__mp_main__"]
    assert len({tuple(line[1:]) for line in lines}) == 1


def test_equal_functions_are_the_same() -> None:
    assert identify_own(make_network(4)) == identify_own(make_network(4))
    assert identify_own(Built(4)) == identify_own(Built(4))
    assert identify_own(partial(build_wide, width=4)) == identify_own(partial(build_wide, width=4))


def test_the_usual_name_stands_for_its_file() -> None:
    assert name_own(cross_entropy.train) == "cross_entropy"
    assert name_own(partial(trusting)) == "test_own_code-trusting"
    assert name_own(careful) == "test_own_code-careful"


def test_a_name_says_who_made_the_method(folder: Path) -> None:
    text = "def train(run, config): ..."
    assert name_own(import_from(folder, "oracle_ssl", text).train) == "own-oracle_ssl"
    assert name_own(import_from(folder, "my method", text).train) == "my-method"
    exec(compile(text, "<stdin>", "exec"), space := {"__name__": "__main__"})
    assert name_own(space["train"]) == "own-train"  # type: ignore[arg-type]


def test_a_function_without_a_text_is_told_by_its_instructions() -> None:
    made: dict[str, Any] = {}
    for name, source in (("one", "x + 1"), ("two", "x + 2")):
        exec(f"def f(x): return {source}", space := {"__name__": "typed"})
        made[name] = space["f"]
    assert identify_own(made["one"]) != identify_own(made["two"])


class OwnConfig(Common):
    schedule: drpl.Schedule
    weights: Path = Path("a")
    shares: dict[str, float] = Field(default={"a.b": 1.0})
    size: Size = Size.SMALL
    limits: tuple[Limits, ...] = (Limits(low=0.1),)


def test_settings_lie_over_a_config_of_any_kind(tiny: DatasetSplits) -> None:
    config = OwnConfig(schedule=tiny_config("cross_entropy", 3).schedule)  # type: ignore[attr-defined]
    settings = {"width": 4, "schedule.epochs": 2}
    built = drpl.Experiment.build(tiny, method=trusting, config=config, settings=settings)
    schedule = config.schedule.model_copy(update={"epochs": 2})
    assert built.config == config.model_copy(update={"width": 4, "schedule": schedule})


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
