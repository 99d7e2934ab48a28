"""What a person sees while training runs: bars in a terminal, plain lines elsewhere."""

import logging
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from drpl.errors import ConfigError
from drpl.files import make_printable

SHOWN = 5  # notes on the data; a folder of thousands may have as many
LOG = logging.getLogger("drpl")  # silent unless a program listens
UNITS = {"s": 1, "m": 60, "h": 3600}


class Display(AbstractContextManager["Display"]):
    """Shows stages and notes on a console; `quiet` shows nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.bars = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )

    def __enter__(self) -> "Display":
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def note(self, text: str) -> None:
        """A sentence that the user should read; a terminal breaks its lines between words."""
        LOG.info(text)
        whole = not self.console.is_terminal
        self.console.print(f"note: {make_printable(text)}", soft_wrap=whole, markup=False)

    def remark(self, text: str) -> None:
        """A sentence on one stage of a run, which the run's folder keeps, too."""
        self.note(text)

    def notes(self, texts: Sequence[str]) -> None:
        """The first few of what was noted about the data."""
        for text in texts[:SHOWN]:
            self.note(text)
        if len(texts) > SHOWN:
            self.note(f"and {len(texts) - SHOWN} more, which result.json lists")

    def track(self, name: str, total: int, done: int = 0, unit: str = "") -> "ProgressLine":
        """A new bar, or a line now and then, for `total` things of which some are done."""
        return ProgressLine(self, name, total, done, unit)

    def follow(self, name: str, unit: str = "") -> Callable[[int, int], None]:
        """What shows how far something is whenever it says so: (done, all)."""
        lines: list[ProgressLine] = []

        def show(done: int, total: int) -> None:
            if not lines:
                lines.append(self.track(name, total, done, unit))
            elif done > lines[0].done:
                lines[0].move(done)

        return show


class ProgressLine:
    """How far something is: a bar in a terminal, about ten lines elsewhere."""

    def __init__(self, display: Display, name: str, total: int, done: int, unit: str) -> None:
        self.display, self.name, self.total, self.unit = display, name, total, unit
        self.began, self.first, self.done = time.monotonic(), done, done
        self.task = display.bars.add_task(name, total=total, completed=done, state="")

    def move(self, done: int, state: str = "") -> None:
        """Show that `done` of all are done now."""
        tenths, self.done = self.done * 10 // self.total, done
        self.display.bars.update(self.task, completed=done, state=state)
        if self.display.bars.disable and done * 10 // self.total > tenths:
            left = (time.monotonic() - self.began) / (done - self.first) * (self.total - done)
            text = [f"{self.unit}{done} of {self.total}", state, f"{left:.0f} s left"]
            line = f"{self.name}: {', '.join(filter(None, text))}"
            self.display.console.print(line, soft_wrap=True)


def duration(seconds: float) -> str:
    """In the unit that a person would use."""
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"


def parse_duration(text: str) -> float:
    """10m, 2h, 90s or 1h30m as seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ConfigError(f"--budget {text}: write a time such as 10m, 2h, 90s or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in parts)
