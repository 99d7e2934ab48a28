"""Everything that can go wrong for a user, with the sentence that says what to do.

DrplError
├── ConfigError      a name, a setting or a preset that does not exist or does not fit
├── DataError        images or labels that cannot be read or used
├── RunError         a run folder or a model that is damaged or belongs to something else
├── StorageError     a file that cannot be written
└── TrainingError    a stage that diverged or breaks the rules of the loop
"""

from collections.abc import Iterable
from difflib import get_close_matches


class DrplError(Exception):
    """A mistake that a user can mend; the command line shows it in one sentence."""


class ConfigError(DrplError):
    """A name, a setting or a preset does not exist or does not fit."""


class DataError(DrplError):
    """Images or labels cannot be read or used."""


class RunError(DrplError):
    """A run folder or a model is damaged, or belongs to something else."""


class StorageError(DrplError):
    """A file cannot be written."""


class TrainingError(DrplError):
    """A stage diverged or breaks the rules of the loop."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error sentence: the nearest known name, or all of them."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(known)
