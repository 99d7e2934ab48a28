"""TensorBoard, Weights & Biases, MLflow: fed from the history, continued, never in the way."""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.errors import ConfigError
from drpl.runs import loggers
from drpl.runs.display import Display
from drpl.runs.folder import Row, append_history, drop_history
from drpl.runs.loggers import Logs, list_scalars
from tests.conftest import Command
from tests.support.tiny import tiny_config

ABOUT = {"run": {"dataset": "tiny", "noise": "none", "method": "mixup", "seed": 1}, "settings": {}}
COLUMNS = {"epoch", "rate", "accuracy", "images", "seconds", "terms/mixup"}
COLUMNS |= {"train_accuracy", "target_accuracy"}

Points = dict[str, list[tuple[int, float]]]  # by tag: step and value


def row(stage: str, epoch: int, accuracy: float | None = 50.0, loss: float = 1.0) -> Row:
    return {
        "stage": stage,
        "epoch": epoch,
        "rate": 0.1,
        "terms": {"mixup": loss},
        "accuracy": accuracy,
        "images": 72,
        "seconds": 0.5,
    }


def train(data: DatasetSplits, out: Path, log: str | list[str] | None, **more: Any) -> drpl.Result:
    config = tiny_config("mixup", 3)
    return drpl.train(data, method="mixup", config=config, out=out, log=log, quiet=True, **more)


class FakeRun:
    def __init__(self, world: "FakeWandb", arguments: dict[str, Any]) -> None:
        self.world, self.arguments = world, arguments
        self.id = arguments["id"] or f"id-{len(world.runs)}"
        self.finished = False

    def log(self, values: dict[str, float], step: int) -> None:
        assert not self.finished
        if self.world.fails_at == step:
            raise ConnectionError("no route to host")
        self.world.sent.append((self.id, step, values))

    def finish(self) -> None:
        self.finished = True


class FakeWandb(ModuleType):
    """The part of wandb's interface that is used."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.runs: list[FakeRun] = []
        self.sent: list[tuple[str, int, dict[str, float]]] = []
        self.fails_at = 0

    def init(self, **arguments: Any) -> FakeRun:
        known = {"project", "name", "config", "dir", "id", "resume"}
        assert arguments.keys() <= known
        self.runs.append(FakeRun(self, arguments))
        return self.runs[-1]


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


class FakeMlflow(ModuleType):
    """The part of MLflow's interface that is used."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.uri = ""

    def MlflowClient(self, tracking_uri: str) -> "FakeMlflow":  # noqa: N802
        self.uri = tracking_uri
        return self

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        known = self.experiments.get(name)
        return SimpleNamespace(experiment_id=known) if known else None

    def create_experiment(self, name: str) -> str:
        assert name not in self.experiments
        self.experiments[name] = f"experiment-{len(self.experiments)}"
        return self.experiments[name]

    def create_run(self, experiment_id: str, run_name: str) -> SimpleNamespace:
        assert experiment_id in self.experiments.values()
        key = f"run-{len(self.runs)}"
        self.runs[key] = {"name": run_name, "params": {}, "points": [], "status": "RUNNING"}
        return SimpleNamespace(info=SimpleNamespace(run_id=key))

    def log_param(self, run_id: str, key: str, value: Any) -> None:
        assert self.runs[run_id]["params"].setdefault(key, value) == value

    def log_metric(self, run_id: str, key: str, value: float, step: int) -> None:
        assert self.runs[run_id]["status"] == "RUNNING"
        self.runs[run_id]["points"].append((key, step, value))

    def update_run(self, run_id: str, status: str) -> None:
        self.runs[run_id]["status"] = status

    def set_terminated(self, run_id: str) -> None:
        self.runs[run_id]["status"] = "FINISHED"


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> FakeMlflow:
    fake = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    return fake


@pytest.fixture
def points() -> Callable[[Path], Points]:
    """What TensorBoard itself reads from a run folder."""
    pytest.importorskip("tensorboard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder: Path) -> Points:
        events = EventAccumulator(str(folder / "tensorboard"))
        events.Reload()
        tags = events.Tags()["scalars"]
        return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags}

    return read


def test_an_epoch_has_a_number_for_each_column_under_its_stage() -> None:
    assert list_scalars(row("final", 7, accuracy=61.5)) == {
        "final/epoch": 7,
        "final/rate": 0.1,
        "final/accuracy": 61.5,
        "final/images": 72,
        "final/seconds": 0.5,
        "final/terms/mixup": 1.0,
    }
    assert "final/accuracy" not in list_scalars(row("final", 7, accuracy=None))


def test_tensorboard_shows_what_the_history_says(
    tiny: DatasetSplits, tmp_path: Path, points: Callable[[Path], Points]
) -> None:
    result = train(tiny, tmp_path, "tensorboard")
    found = points(tmp_path)
    assert set(found) == {f"train/{column}" for column in COLUMNS}
    for tag, shown in found.items():
        wanted = [(k, list_scalars(r)[tag]) for k, r in enumerate(result.history, 1)]
        assert [step for step, _ in shown] == [step for step, _ in wanted] == [1, 2, 3]
        assert [v for _, v in shown] == pytest.approx([v for _, v in wanted], rel=1e-6)


def test_tensorboard_has_no_epoch_twice_after_a_kill(
    tmp_path: Path, points: Callable[[Path], Points]
) -> None:
    with Logs(tmp_path, ["tensorboard"], ABOUT, Display(quiet=True)) as logs:
        for stage, epoch in (("relabel", 1), ("relabel", 2), ("final", 1), ("final", 2)):
            append_history(tmp_path, row(stage, epoch, loss=1.0))
            logs.follow()
    # The checkpoint of `final` knew its first epoch only.
    drop_history(tmp_path, "final", 1)
    with Logs(tmp_path, ["tensorboard"], ABOUT, Display(quiet=True)) as logs:
        logs.follow()
        for epoch in (2, 3):
            append_history(tmp_path, row("final", epoch, loss=2.0))
            logs.follow()
    found = points(tmp_path)
    assert found["relabel/terms/mixup"] == [(1, 1.0), (2, 1.0)]
    assert found["final/terms/mixup"] == [(3, 1.0), (4, 2.0), (5, 2.0)]


def test_a_logger_that_comes_late_gets_all_rows(
    tiny: DatasetSplits, tmp_path: Path, wandb: FakeWandb
) -> None:
    train(tiny, tmp_path, None)
    assert not wandb.runs
    train(tiny, tmp_path, "wandb")  # finished: only the rows are sent
    train(tiny, tmp_path, "wandb")
    assert [step for _, step, _ in wandb.sent] == [1, 2, 3]
    assert wandb.runs
    assert all(run.finished for run in wandb.runs)


def test_wandb_gets_the_run_and_every_row(
    tiny: DatasetSplits, tmp_path: Path, wandb: FakeWandb
) -> None:
    result = train(tiny, tmp_path, ["wandb", "wandb"], noise="uniform:0.3", seed=4)
    (run,) = wandb.runs
    assert run.arguments["name"] == "tiny, uniform:0.3, mixup, seed 4"
    assert run.arguments["config"]["settings"]["schedule"]["epochs"] == 3
    assert run.arguments["project"] == "drpl"
    assert [values for _, _, values in wandb.sent] == [list_scalars(row) for row in result.history]
    assert run.finished


def test_wandb_goes_on_with_the_same_run(tmp_path: Path, wandb: FakeWandb) -> None:
    with Logs(tmp_path, ["wandb"], ABOUT, Display(quiet=True)) as logs:
        for epoch in (1, 2, 3):
            append_history(tmp_path, row("train", epoch))
            logs.follow()
    drop_history(tmp_path, "train", 1)
    with Logs(tmp_path, ["wandb"], ABOUT, Display(quiet=True)) as logs:
        logs.follow()
        for epoch in (2, 3, 4):
            append_history(tmp_path, row("train", epoch))
            logs.follow()
    assert [(name, step) for name, step, _ in wandb.sent] == [("id-0", k) for k in (1, 2, 3, 4)]
    assert [run.arguments["id"] for run in wandb.runs] == [None, "id-0"]


def test_a_stopped_training_is_continued_in_both(
    tiny: DatasetSplits, tmp_path: Path, wandb: FakeWandb, points: Callable[[Path], Points]
) -> None:
    """Stopped between two checkpoints: epochs that are trained again are not shown again."""
    log = ["tensorboard", "wandb"]
    wandb.fails_at = 2

    def stop(self: FakeRun, values: dict[str, float], step: int) -> None:
        if step == 2 and wandb.fails_at:
            raise KeyboardInterrupt
        wandb.sent.append((self.id, step, values))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeRun, "log", stop)
        with pytest.raises(KeyboardInterrupt):
            train(tiny, tmp_path, log, save_every=1000)
    wandb.fails_at = 0
    result = train(tiny, tmp_path, log)
    assert [step for _, step, _ in wandb.sent] == [1, 2, 3]
    assert [step for step, _ in points(tmp_path)["train/accuracy"]] == [1, 2, 3]
    assert [step for step, _ in enumerate(result.history, 1)] == [1, 2, 3]


def test_a_failing_logger_stops_nothing(
    tiny: DatasetSplits, tmp_path: Path, wandb: FakeWandb, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb.fails_at = 2
    config = tiny_config("mixup", 4)
    result = drpl.train(tiny, method="mixup", config=config, out=tmp_path, log="wandb")
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("no more logging to wandb (ConnectionError: no route to host)") == 1
    assert len(result.history) == 4
    assert [step for _, step, _ in wandb.sent] == [1]
    assert json.loads((tmp_path / "loggers.json").read_text())["wandb"]["rows"] == 1


def test_numbers_do_not_depend_on_who_looks(
    tiny: DatasetSplits, tmp_path: Path, wandb: FakeWandb
) -> None:
    with_it, without = train(tiny, tmp_path / "a", "wandb"), train(tiny, tmp_path / "b", None)
    for one, other in zip(with_it.history, without.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_nothing_is_imported_unless_asked_for(
    tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wandb", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)  # to import it raises
    assert train(tiny, tmp_path, None).history
    assert not (tmp_path / "loggers.json").exists()


@pytest.mark.parametrize("name", loggers.LOGGERS)
def test_a_missing_package_is_named_with_its_pip_line(
    name: str, tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, loggers.LOGGERS[name].module, None)
    with pytest.raises(ConfigError, match=rf"pip install 'drpl\[{name}\]'"):
        train(tiny, tmp_path / "run", name)
    assert not (tmp_path / "run").exists()


def test_unknown_loggers_are_refused(mistake: Callable[..., str]) -> None:
    said = mistake("train", "digits", "--log", "tensorbord")
    assert "did you mean 'tensorboard'?" in said


@pytest.mark.parametrize("goal", ["train", "detect"])
def test_from_the_command_line(
    goal: str, command: Command, tiny_file: Path, tmp_path: Path, wandb: FakeWandb
) -> None:
    short = ("schedule.epochs=2", "schedule.rates=[[1, 0.05]]", "width=4")
    words = [word for text in short for word in ("--set", text)]
    answer = command(
        goal, tiny_file, "--method", "mixup", "--preset", "small", *words, "--log", "wandb", "-q"
    )
    assert answer.code == 0, answer
    assert [step for _, step, _ in wandb.sent] == [1, 2]


def test_the_real_wandb_offline(
    tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    for name, value in (("MODE", "offline"), ("SILENT", "true")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    train(tiny, tmp_path, "wandb")
    (log,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    content = log.read_bytes()
    assert all(f"train/{column}".encode() in content for column in COLUMNS - {"terms/mixup"})
    assert b"mixup" in content


def test_mlflow_has_one_run_with_every_epoch(
    tmp_path: Path, mlflow: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a run is continued: the same one goes on, and no epoch comes twice."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for epoch in (1, 2):
        append_history(tmp_path, row("train", epoch))
        with Logs(tmp_path, ["mlflow"], ABOUT, Display(quiet=True)) as logs:
            logs.follow()
    assert mlflow.uri == f"sqlite:///{tmp_path.resolve()}/mlflow.db"
    (run,) = mlflow.runs.values()
    assert run["name"] == "tiny, none, mixup, seed 1"
    assert run["status"] == "FINISHED"
    assert run["params"]["run.method"] == "mixup"
    losses = [point[1:] for point in run["points"] if point[0] == "train/terms/mixup"]
    assert losses == [(1, 1.0), (2, 1.0)]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")
    (tmp_path / "other").mkdir()
    with Logs(tmp_path / "other", ["mlflow"], ABOUT, Display(quiet=True)) as logs:
        append_history(tmp_path / "other", row("train", 1))
        logs.follow()
    assert mlflow.uri == "http://localhost:5000"
    assert list(mlflow.experiments) == ["drpl"]


def test_mlflow_itself_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("mlflow").MlflowClient
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    append_history(tmp_path, row("train", 1))
    with Logs(tmp_path, ["mlflow"], ABOUT, Display(quiet=True)) as logs:
        logs.follow()
    address = f"sqlite:///{tmp_path}/mlflow.db"
    identity = json.loads((tmp_path / "loggers.json").read_text())["mlflow"]["id"]
    found = client(tracking_uri=address).get_run(identity)
    assert found.data.metrics["train/terms/mixup"] == 1.0
    assert found.info.status == "FINISHED"
