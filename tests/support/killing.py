"""Runs that die as a killed process does."""

from collections.abc import Callable

import pytest

from drpl.runs.display import StageDisplay


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


def kill_in_second_epoch(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on an attempt dies in its second epoch, before it is saved; call before each."""
    seen = 0
    report_epoch = StageDisplay.epoch

    def restart() -> None:
        nonlocal seen
        seen = 0

    def die(self: StageDisplay, *what: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise Killed
        report_epoch(self, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(StageDisplay, "epoch", die)
    return restart
