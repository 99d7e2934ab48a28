"""Fewer epochs than a preset has, in its own proportions: the setting `effort` of a schedule."""

from collections.abc import Mapping
from typing import Any

from drpl.config.from_data import find_schedules
from drpl.config.settings import IN_EPOCHS, Settings

Tree = dict[str, Any]


def shorten(schema: type[Settings], presets: Mapping[str, Any], whole: Mapping[str, Any]) -> Tree:
    """What of the presets changes by the efforts that all settings together ask for.

    A table `relabel` goes by `relabel_schedule`, all else in epochs by `schedule`. What is no
    number is left for the check of types.
    """
    changed: Tree = {}
    for name in find_schedules(schema):
        table = presets.get(name, {})
        if (effort := _find_effort(whole, name)) != 1 and "epochs" in table and "lr" in table:
            changed[name] = _shorten_schedule(table, effort)
    changed |= _shorten_counts(schema, presets, _find_effort(whole, "schedule"))
    for name, field in schema.model_fields.items():
        kind, effort = field.annotation, _find_effort(whole, f"{name}_schedule")
        if isinstance(kind, type) and issubclass(kind, Settings) and effort != 1:
            changed[name] = _shorten_counts(kind, presets.get(name, {}), effort)
    return changed


def _find_effort(whole: Mapping[str, Any], schedule: str) -> float:
    table = whole.get(schedule)
    effort = table.get("effort", 1) if isinstance(table, Mapping) else 1
    return effort if isinstance(effort, int | float) and effort > 0 else 1


def _shorten_schedule(table: Mapping[str, Any], effort: float) -> Tree:
    """Epochs and the beginnings of rates; of two rates that now begin together the later stays."""
    rates = {1 + round((epoch - 1) * effort): rate for epoch, rate in table["lr"]}
    shorter: Tree = {"epochs": _scale(table["epochs"], effort)}
    shorter["lr"] = [[epoch, rate] for epoch, rate in rates.items()]
    if cosine := table.get("cosine"):
        shorter["cosine"] = [round(cosine[0] * effort), cosine[1]]
    return shorter


def _shorten_counts(schema: type[Settings], table: Mapping[str, Any], effort: float) -> Tree:
    """The settings in epochs of one table, defaults among them."""
    counted = {n: field for n, field in schema.model_fields.items() if IN_EPOCHS in field.metadata}
    values = {name: table.get(name, field.default) for name, field in counted.items()}
    return {name: _scale(value, effort) for name, value in values.items() if effort != 1 and value}


def _scale(epochs: float, effort: float) -> float:
    """At least two, if it was; a whole number stays one."""
    return type(epochs)(max(min(epochs, 2), round(epochs * effort)))
