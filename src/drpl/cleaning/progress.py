"""One bar for a whole cleaning, from its first second, with the time that is left of all."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from drpl.runs.display import LOG, Display, ProgressLine, duration

READ, ENCODE, PLAN, TRAIN, WRITE = "read", "encode", "plan", "train", "write"
PARTS = {  # what each is called while it lasts, and its share of the budget until it is planned
    READ: ("reading", 0.05),
    ENCODE: ("encoding", 0.25),
    PLAN: ("planning", 0.05),
    TRAIN: ("training", 0.5),
    WRITE: ("writing", 0.15),
}
BEFORE_TRAINING = sum(PARTS[part][1] for part in (READ, ENCODE, PLAN))
TELLING = 0.05  # share of a step after which its pace says more than its forecast
REFRESH = 4  # times a second
BUDGET = "10m"  # where nobody says how much time there is


@dataclass(frozen=True)
class Step:
    """A piece of work that may report how far it is under its name."""

    part: str
    name: str
    seconds: float  # that it is expected to take
    about: str = ""  # more than its name, for people


class Overall(Display):
    """Shows where a cleaning is: one bar in a terminal, a line now and then elsewhere.

    Its steps are begun in their order, by `begin` or by whatever reports its progress under a
    step's name; those that were skipped count as done.
    """

    def __init__(self, budget: float, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self.budget, self.started = budget, time.monotonic()
        self._steps = [Step(part, part, share * budget) for part, (_, share) in PARTS.items()]
        self._current, self._begun, self._detail = 0, self.started, ""
        self._planned = False
        self.remarks = 0
        self._done, self._first, self._farthest = 0.0, 0.0, 0.0  # shares: of the step, of all
        self._live = Live(self, console=self.console, refresh_per_second=REFRESH, transient=True)

    def __enter__(self) -> "Overall":
        if self.console.is_terminal and not self.console.quiet:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds of the budget that are left; at least 0."""
        return max(0.0, self.budget - self.elapsed)

    def remark(self, text: str) -> None:
        """Count what is said of a stage; a cleaning has many, and its summary says what matters."""
        LOG.info(text)
        self.remarks += 1

    def forecast(self, part: str, steps: Sequence[Step]) -> None:
        """Replace what is known of a part that is ahead."""
        ahead = self._steps[self._current + 1 :]
        place = next(k for k, step in enumerate(ahead) if step.part == part)
        ahead[place:] = [*steps, *(step for step in ahead[place:] if step.part != part)]
        self._steps[self._current + 1 :] = ahead
        self._planned = True

    def begin(self, name: str, detail: str = "") -> None:
        """Go to the next step of that name; where none is, the current one goes on."""
        for k, step in enumerate(self._steps[self._current + 1 :], self._current + 1):
            if step.name == name:
                self._current, self._begun = k, time.monotonic()
                self._done = self._first = 0.0
                break
        else:
            if self._steps[self._current].name != name:
                return
        self.say(detail)

    def say(self, detail: str) -> None:
        """What is being done now, in a few words."""
        self._detail = detail
        # Elsewhere nothing is said while reading: of a mistake one sentence is all that is said.
        if not self._live.is_started and self._current:
            self._print()

    def track(self, name: str, total: int, done: int = 0, unit: str = "") -> "StepLine":
        """Go to the step of that name, of which some may be done."""
        self.begin(name)
        self._done = self._first = done / max(1, total)
        return StepLine(self, name, total, done, unit)

    def move(self, share: float, detail: str) -> None:
        """Show that a share of the current step is done."""
        tenths, self._done, self._detail = int(self._done * 10), share, detail
        if not self._live.is_started and int(share * 10) > tenths:
            self._print()

    def estimate_rest(self) -> float:
        """Seconds until all is done: the current step at its pace, the others as forecast.

        Before training is forecast it will be fitted into the budget, so that is all one can say.
        """
        if not self._planned:
            return self.left
        step, spent = self._steps[self._current], time.monotonic() - self._begun
        gained = self._done - self._first
        rest = max(0.0, step.seconds * (1 - self._first) - spent)
        if gained > TELLING:
            rest = spent / gained * (1 - self._done)
        return rest + sum(later.seconds for later in self._steps[self._current + 1 :])

    def __rich__(self) -> Table:
        rest = self.estimate_rest()
        share = self.elapsed / max(self.elapsed + rest, 1e-6)
        if not self._planned:  # on a slow machine all of the budget may be gone by then
            share = min(share, BEFORE_TRAINING)
        self._farthest = share = max(share, self._farthest)  # a bar never goes back
        bar = Table.grid(padding=(0, 1), expand=True)
        for ratio in (None, 1, None, None):
            bar.add_column(ratio=ratio, no_wrap=True)
        left = f"about {duration(rest)} left"
        bar.add_row(self._title, ProgressBar(1.0, share), f"{share:4.0%}", left)
        whole = Table.grid(expand=True)
        whole.add_row(bar)
        whole.add_row(Text(self._describe(), style="dim", no_wrap=True, overflow="ellipsis"))
        return whole

    @property
    def _title(self) -> str:
        return f"{PARTS[self._steps[self._current].part][0]:<8}"

    def _describe(self) -> str:
        """The step and its detail."""
        return ", ".join(filter(None, (self._steps[self._current].about, self._detail)))

    def _print(self) -> None:
        told = ": ".join(filter(None, (self._title.strip(), self._describe())))
        self.console.print(f"{told}; about {duration(self.estimate_rest())} left", soft_wrap=True)


class StepLine(ProgressLine):
    """How far a step of the whole is."""

    def __init__(self, overall: Overall, name: str, total: int, done: int, unit: str) -> None:
        self.overall, self.name, self.total, self.done, self.unit = overall, name, total, done, unit

    def move(self, done: int, state: str = "") -> None:
        """Show that `done` of all are done now."""
        self.done = done
        told = [f"{self.unit}{done:,} of {self.total:,}", state]
        self.overall.move(done / max(1, self.total), ", ".join(filter(None, told)))
