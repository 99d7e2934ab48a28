"""`--set a.b=c` on the command line as a mapping."""

import tomllib
from collections.abc import Iterable

from drpl.config.compose import Tree, merge
from drpl.errors import ConfigError


def parse_settings(texts: Iterable[str] | None) -> Tree:
    """`relabel.begin=20` as {"relabel": {"begin": 20}}; a value is TOML, or else a plain word."""
    settings: Tree = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {text}: write key=value, for example --set relabel.begin=20")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        merge(settings, {key.strip(): parsed})
    return settings
