"""Names that a user may type, each with a sentence, imported only when it is wanted."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from drpl.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Entry:
    """Where a named thing lives (`module` or `module:attribute`) and what it is."""

    target: str
    about: str

    def load(self) -> Any:
        """Import the thing itself."""
        module, _, attribute = self.target.partition(":")
        found = import_module(module)
        return getattr(found, attribute) if attribute else found


E = TypeVar("E", bound=Entry)


def find(kind: str, name: str, entries: Mapping[str, E]) -> E:
    """The entry of that name, or an error that offers the nearest one."""
    if name not in entries:
        raise ConfigError(f"unknown {kind} {name!r}; {did_you_mean(name, entries)}")
    return entries[name]
