"""What a person sees while training runs: bars in a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SHOWN = 5  # notes on the data; a folder of thousands may have as many


class Display:
    """Shows stages and notes on a console; `quiet` shows nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.bars: Progress | None = None
        if self.console.is_terminal and not quiet:
            self.bars = Progress(
                TextColumn("{task.description:<16}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[state]}"),
                TimeRemainingColumn(),
                console=self.console,
            )

    def __enter__(self) -> Self:
        if self.bars:
            self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bars:
            self.bars.stop()

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        self.console.print(f"note: {text}", soft_wrap=True, markup=False)

    def notes(self, texts: Sequence[str]) -> None:
        """The first few of what was noted about the data."""
        for text in texts[:SHOWN]:
            self.note(text)
        if len(texts) > SHOWN:
            self.note(f"and {len(texts) - SHOWN} more, which result.json lists")

    def stage(self, name: str, epochs: int, done: int) -> "StageDisplay":
        """A new bar, or the head line of a stage."""
        return StageDisplay(self, name, epochs, done)

    def count(self, name: str, total: int) -> "CountDisplay":
        """A new bar for a number of things to do."""
        return CountDisplay(self, name, total)


class StageDisplay:
    """One stage's bar, or about ten lines."""

    def __init__(self, display: Display, name: str, epochs: int, done: int) -> None:
        self.display, self.name, self.epochs = display, name, epochs
        self.began, self.first = time.monotonic(), done
        if display.bars:
            self.task = display.bars.add_task(name, total=epochs, completed=done, state="")

    def epoch(self, number: int, accuracy: float | None, loss: float) -> None:
        """An epoch has ended."""
        state = f"loss {loss:.3f}" + ("" if accuracy is None else f", accuracy {accuracy:.2f} %")
        if self.display.bars:
            self.display.bars.update(self.task, completed=number, state=state)
        elif number == self.epochs or number % max(1, self.epochs // 10) == 0:
            left = (time.monotonic() - self.began) / (number - self.first) * (self.epochs - number)
            self.display.console.print(
                f"{self.name}: epoch {number} of {self.epochs}, {state}, {left:.0f} s left",
                soft_wrap=True,
            )


class CountDisplay:
    """How many things are done: a bar, or about ten lines."""

    def __init__(self, display: Display, name: str, total: int) -> None:
        self.display, self.name, self.total = display, name, total
        self.done, self.began = 0, time.monotonic()
        if display.bars:
            self.task = display.bars.add_task(name, total=total, state="")

    def add(self, number: int) -> None:
        """So many more are done."""
        tenths = self.done * 10 // self.total
        self.done += number
        if self.display.bars:
            self.display.bars.update(self.task, completed=self.done)
        elif self.done * 10 // self.total > tenths:
            left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
            self.display.console.print(
                f"{self.name}: {self.done} of {self.total}, {left:.0f} s left", soft_wrap=True
            )


def duration(seconds: float) -> str:
    """In the unit that a person would use."""
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"
