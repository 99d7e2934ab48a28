"""Runs that die as a killed process does."""


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


class KillInSecondEpoch:
    """For `Execution.on_epoch`: an attempt dies in its second epoch, before that is saved."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, stage: str, epoch: int) -> None:
        self.seen += 1
        if self.seen == 2:
            raise Killed
