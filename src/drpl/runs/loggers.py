"""Other places that show a run's history: TensorBoard, and Weights & Biases.

They are fed from `history.jsonl` itself, so they show what it says, also after a run was continued.
`loggers.json` in the run folder keeps how many of its rows each has been sent.
"""

import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from drpl.errors import ConfigError
from drpl.files import read_json, write_json
from drpl.registry import Entry, find
from drpl.runs.display import Display
from drpl.runs.folder import Row, read_history

LOGGERS = {
    "tensorboard": Entry(
        "drpl.runs.loggers:TensorBoard", "event files in the folder `tensorboard`"
    ),
    "wandb": Entry("drpl.runs.loggers:WeightsAndBiases", "a run of Weights & Biases, also offline"),
}
MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}  # what each needs

Memory = dict[str, Any]  # of one logger: how many rows it was sent, and what else it must know
About = dict[str, Any]  # what decides the run: its tables `run` and `settings`


class Logger(Protocol):
    """Takes the numbers of epoch after epoch; all stages are counted through."""

    def send(self, step: int, values: dict[str, float]) -> None:
        """Show the numbers of one epoch."""
        ...

    def back(self, sent: int, step: int) -> int:
        """Rows after `step` of the `sent` ones will be trained again: how many stay shown."""
        ...

    def close(self) -> None:
        """No more is coming."""
        ...


class TensorBoard:
    """Event files, which `tensorboard --logdir FOLDER` shows."""

    def __init__(self, folder: Path, about: About, memory: Memory) -> None:
        self._folder = folder / "tensorboard"
        self._writer: Any = None

    def send(self, step: int, values: dict[str, float]) -> None:
        """One point on each curve."""
        if self._writer is None:
            writer = import_module(MODULES["tensorboard"]).SummaryWriter
            # Whatever an earlier process wrote of this epoch and later ones is void.
            self._writer = writer(str(self._folder), purge_step=step)
        for tag, value in values.items():
            self._writer.add_scalar(tag, value, step)
        self._writer.flush()

    def back(self, sent: int, step: int) -> int:
        """Later points are taken back when the next one is written."""
        self.close()
        return step

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


class WeightsAndBiases:
    """A run on the server, or below `wandb` in the folder if WANDB_MODE is offline."""

    def __init__(self, folder: Path, about: About, memory: Memory) -> None:
        self._folder, self._about, self._memory = folder, about, memory
        self._run: Any = None

    def send(self, step: int, values: dict[str, float]) -> None:
        """One point on each curve."""
        if self._run is None:
            self._run = import_module(MODULES["wandb"]).init(
                project=os.environ.get("WANDB_PROJECT", "drpl"),
                name=make_title(self._about["run"]),
                config=self._about,
                dir=str(self._folder),
                id=self._memory.get("id"),  # None: a new run, which is given one
                resume="allow",
            )
            self._memory["id"] = self._run.id
        self._run.log(values, step=step)

    def back(self, sent: int, step: int) -> int:
        """What was sent stays: its steps only go up, and the same epochs give the same numbers."""
        return sent

    def close(self) -> None:
        """Send the rest."""
        if self._run is not None:
            self._run.finish()
        self._run = None


class Logs:
    """Brings every logger up to what the history says; one that fails is dropped, with a note."""

    def __init__(self, folder: Path, names: Iterable[str], about: About, display: Display) -> None:
        self._folder, self._path, self._display = folder, folder / "loggers.json", display
        self._memory: dict[str, Memory] = read_json(self._path) if self._path.exists() else {}
        self._open: dict[str, Logger] = {}
        for name in names:
            memory = self._memory.setdefault(name, {"rows": 0})
            self._open[name] = find("logger", name, LOGGERS).load()(folder, about, memory)

    def follow(self) -> None:
        """Send the rows that are new."""
        if not self._open:
            return
        rows = read_history(self._folder)
        for name, logger in list(self._open.items()):
            try:
                self._catch_up(logger, self._memory[name], rows)
            except Exception as error:  # whatever goes wrong there, the training is worth more
                self._drop(name, error)

    def _catch_up(self, logger: Logger, memory: Memory, rows: list[Row]) -> None:
        before = memory["rows"]
        if before > len(rows):
            memory["rows"] = logger.back(before, len(rows))
        for step, row in enumerate(rows[memory["rows"] :], memory["rows"] + 1):
            logger.send(step, list_scalars(row))
            memory["rows"] = step
        if memory["rows"] != before:
            write_json(self._path, self._memory)

    def _drop(self, name: str, error: Exception) -> None:
        del self._open[name]
        why = " ".join(f"{type(error).__name__}: {error}".split())
        self._display.note(f"no more logging to {name} ({why}); history.jsonl has every epoch")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, logger in list(self._open.items()):
            try:
                logger.close()
            except Exception as failure:
                self._drop(name, failure)


def list_scalars(row: Row) -> dict[str, float]:
    """The numbers of an epoch, each under its stage and its column."""
    columns = {key: value for key, value in row.items() if key not in ("stage", "terms")}
    columns |= {f"terms/{key}": value for key, value in row["terms"].items()}
    return {f"{row['stage']}/{key}": value for key, value in columns.items() if value is not None}


def make_title(run: dict[str, Any]) -> str:
    """A run in one line."""
    return f"{run['dataset']}, {run['noise']}, {run['method']}, seed {run['seed']}"


def check_loggers(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """The loggers asked for, each once, if they and their packages are there."""
    asked = tuple(dict.fromkeys([names] if isinstance(names, str) else names or ()))
    for name in asked:
        find("logger", name, LOGGERS)
        try:
            import_module(MODULES[name])
        except Exception as error:  # a package that does not fit another may raise anything
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"logging to {name} needs its package, which cannot be imported here ({reason}): "
                f"pip install 'drpl[{name}]', or leave --log {name} out"
            ) from None
    return asked
