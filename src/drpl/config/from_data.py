"""Settings that follow from the data, where the user has named no preset."""

from typing import Any

from drpl.config.settings import Settings

STEPS = 50  # in an epoch, about: fewer teach little, more take long and memorise
SMALLEST, LARGEST = 16, 1024  # vectors in a batch


def suit_to_vectors(
    schema: type[Settings], samples: int, classes: int, dimensions: int | None = None
) -> dict[str, Any]:
    """Settings that suit the number of vectors; for images the preset suffices."""
    size = choose_batch_size(samples, classes, SMALLEST, LARGEST)
    batches = {name: {"batch_size": size} for name in find_schedules(schema)}
    return {**batches, "dimensions": dimensions} if dimensions else {**batches}


def choose_batch_size(samples: int, classes: int, least: int, most: int) -> int:
    """A power of two that makes about fifty steps of an epoch and has room for every class."""
    wanted = max(least, classes, samples / STEPS)
    size = least
    while size < min(wanted, most):
        size *= 2
    return size


def find_schedules(schema: type[Settings]) -> list[str]:
    """The fields of a configuration that are schedules: tables with a batch size."""
    kinds = {name: field.annotation for name, field in schema.model_fields.items()}
    return [
        name for name, kind in kinds.items() if "batch_size" in getattr(kind, "model_fields", ())
    ]
