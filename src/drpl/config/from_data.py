"""Settings that follow from the data, where the user has named no preset."""

from collections.abc import Iterator

from drpl.config.settings import Settings
from drpl.data.dataset import DatasetSplits
from drpl.registry import METHODS, find
from drpl.training.schedule import Schedule

STEPS = 50  # in an epoch, about: fewer teach little, more take long and learn by heart
SMALLEST, LARGEST = 16, 1024  # vectors in a batch


def chosen(data: DatasetSplits, method: str) -> list[str]:
    """Texts as for `--set` that suit the size of the data; for images the preset suffices."""
    if len(data.train.images.shape) > 1:
        return []
    size = batch_size(len(data.train), len(data.train.classes), SMALLEST, LARGEST)
    schema = find("method", method, METHODS).load().Config
    return [f"{name}.batch_size={size}" for name in schedules(schema)]


def batch_size(samples: int, classes: int, least: int, most: int) -> int:
    """A power of two that makes about fifty steps of an epoch and has room for every class."""
    wanted = max(least, classes, samples / STEPS)
    size = least
    while size < min(wanted, most):
        size *= 2
    return size


def schedules(schema: type[Settings], path: str = "") -> Iterator[str]:
    """The names of all schedules in a configuration, those in its tables too."""
    for name, field in schema.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Schedule):
            yield path + name
        elif isinstance(kind, type) and issubclass(kind, Settings):
            yield from schedules(kind, f"{path}{name}.")
