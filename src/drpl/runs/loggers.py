"""Other places that show a run's history: TensorBoard, Weights & Biases, and MLflow.

They are fed from `history.jsonl` itself, so they show what it says, also after a run was continued.
`loggers.json` in the run folder keeps how many of its rows each has been sent.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from drpl.config.compose import flatten
from drpl.errors import ConfigError
from drpl.files import read_json, write_json
from drpl.registry import find
from drpl.runs.display import Display
from drpl.runs.folder import Row, read_history
from drpl.runs.records import LoggersRecord

Memory = dict[str, Any]  # of one logger: how many rows it was sent, and what else it must know
About = dict[str, Any]  # what decides the run: its tables `run` and `settings`


class Sink(NamedTuple):
    """An open logger: it takes the numbers of epoch after epoch; all stages are counted through."""

    send: Callable[[int, dict[str, float]], None]  # step, values
    close: Callable[[], None]


def open_tensorboard(folder: Path, about: About, memory: Memory, step: int) -> Sink:
    """Event files, which `tensorboard --logdir FOLDER` shows."""
    # Whatever an earlier process wrote of this epoch and later ones is void.
    make_writer = import_module("torch.utils.tensorboard").SummaryWriter
    writer = make_writer(str(folder / "tensorboard"), purge_step=step)

    def send(step: int, values: dict[str, float]) -> None:
        for tag, value in values.items():
            writer.add_scalar(tag, value, step)
        writer.flush()

    return Sink(send, writer.close)


def open_wandb(folder: Path, about: About, memory: Memory, step: int) -> Sink:
    """A run on the server, or below `wandb` in the folder if WANDB_MODE is offline."""
    ran = about["run"]
    run = import_module("wandb").init(
        project=os.environ.get("WANDB_PROJECT", "drpl"),
        name=f"{ran['dataset']}, {ran['noise']}, {ran['method']}, seed {ran['seed']}",
        config=about,
        dir=str(folder),
        id=memory.get("id"),  # None: a new run, which is given one
        resume="allow",
    )
    memory["id"] = run.id
    return Sink(lambda step, values: run.log(values, step=step), run.finish)


def open_mlflow(folder: Path, about: About, memory: Memory, step: int) -> Sink:
    """A run at MLFLOW_TRACKING_URI, or else in `mlflow.db` in the folder."""
    mlflow, ran = import_module("mlflow"), about["run"]
    address = (
        os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(folder / 'mlflow.db').resolve()}"
    )
    client = mlflow.MlflowClient(tracking_uri=address)
    if "id" not in memory:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "drpl")
        known = client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else client.create_experiment(name)
        title = f"{ran['dataset']}, {ran['noise']}, {ran['method']}, seed {ran['seed']}"
        memory["id"] = client.create_run(experiment, run_name=title).info.run_id
        for key, value in flatten(about).items():
            client.log_param(memory["id"], key, value)
    client.update_run(memory["id"], status="RUNNING")

    def send(step: int, values: dict[str, float]) -> None:
        for tag, value in values.items():
            client.log_metric(memory["id"], tag, value, step=step)

    return Sink(send, lambda: client.set_terminated(memory["id"]))


class Logger(NamedTuple):
    """A kind of logger."""

    module: str  # what it needs
    open: Callable[[Path, About, Memory, int], Sink]  # before the epoch of that number is sent
    rewinds: bool  # else what was sent stays: the same epochs give the same numbers


LOGGERS = {
    "tensorboard": Logger("torch.utils.tensorboard", open_tensorboard, rewinds=True),
    "wandb": Logger("wandb", open_wandb, rewinds=False),  # its steps only go up
    "mlflow": Logger("mlflow", open_mlflow, rewinds=False),  # it keeps what it was sent
}


class Logs(AbstractContextManager["Logs"]):
    """Brings every logger up to what the history says; one that fails is dropped, with a note."""

    def __init__(self, folder: Path, names: Iterable[str], about: About, display: Display) -> None:
        self._folder, self._about, self._display = folder, about, display
        self._path = folder / "loggers.json"
        self._memory: dict[str, Memory] = (
            read_json(self._path, LoggersRecord) if self._path.exists() else {}
        )
        self._sinks: dict[str, Sink | None] = dict.fromkeys(names)  # None: opened when needed
        for name in self._sinks:
            find("logger", name, LOGGERS)
            self._memory.setdefault(name, {"rows": 0})

    def follow(self) -> None:
        """Send the rows that are new."""
        rows = read_history(self._folder) if self._sinks else []
        self._attempt(lambda name: self._catch_up(name, rows))

    def _attempt(self, act: Callable[[str], None]) -> None:
        for name in list(self._sinks):
            try:
                act(name)
            except Exception as error:  # whatever goes wrong there, the training is worth more
                del self._sinks[name]
                why = " ".join(f"{type(error).__name__}: {error}".split())
                note = f"no more logging to {name} ({why}); history.jsonl has every epoch"
                self._display.note(note)

    def _catch_up(self, name: str, rows: list[Row]) -> None:
        logger, memory = LOGGERS[name], self._memory[name]
        before = memory["rows"]
        if before > len(rows) and logger.rewinds:
            self._close(name)
            memory["rows"] = len(rows)
        for step, row in enumerate(rows[memory["rows"] :], memory["rows"] + 1):
            sink = self._sinks[name] or logger.open(self._folder, self._about, memory, step)
            self._sinks[name] = sink
            sink.send(step, list_scalars(row))
            memory["rows"] = step
        if memory["rows"] != before:
            write_json(self._path, self._memory)

    def _close(self, name: str) -> None:
        if sink := self._sinks[name]:
            sink.close()
        self._sinks[name] = None

    def __exit__(self, *error: object) -> None:
        self._attempt(self._close)


def list_scalars(row: Row) -> dict[str, float]:
    """The numbers of an epoch, each under its stage and its column."""
    columns = {key: value for key, value in row.items() if key not in ("stage", "terms")}
    columns |= {f"terms/{key}": value for key, value in row["terms"].items()}
    return {f"{row['stage']}/{key}": value for key, value in columns.items() if value is not None}


def check_loggers(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """The loggers asked for, each once, if they and their packages are there."""
    asked = tuple(dict.fromkeys([names] if isinstance(names, str) else names or ()))
    for name in asked:
        module = find("logger", name, LOGGERS).module
        try:
            import_module(module)
        except Exception as error:  # a package that does not fit another may raise anything
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"logging to {name} needs its package, which cannot be imported here ({reason}): "
                f"pip install 'drpl[{name}]', or leave --log {name} out"
            ) from None
    return asked
