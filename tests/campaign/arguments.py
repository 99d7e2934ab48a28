"""Command lines of all kinds, by what the commands themselves declare."""

from functools import cache
from inspect import Parameter, signature
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from typer.models import ArgumentInfo

from drpl.cli import app

ODD = (
    *("", " ", "nan", "inf", "-1", "0", "1e400", "99999999999999999999", "1979-05-27", "a\nb"),
    *("x" * 300, "/" + "x/" * 2500, "=1+1", "..", "/dev/null", "/proc/self/mem", "\udcff", "💥"),
)
KNOWN = (
    *("digits", "tiny.npz", "photos", "list.csv", "trained", "cleaned", "photos/top/0.png"),
    *("uniform:0.3", "uniform:2", "uniform:", "nonuniform:0.2", "ood:0.1", "uniform:0.2+x", "+"),
    *("width=8", "width=nan", "width=1979-05-27", "width=99999999999999999999", "width=8\nflip=1"),
    *("relabel.begin=2", "x=1", "=", "network=mlp", "small", "drpl", "mixup", "lite0", "none"),
    *("1", "2", "10", "1s", "cpu", "cuda:9", "new", "1,2", "table1", "methods", "cifar10"),
)
GOOD: dict[str, tuple[str, ...]] = {  # by the name of a parameter, what leads on
    "data": ("tiny.npz", "photos", "list.csv"),
    "run": ("trained", "cleaned"),
    "runs": ("trained", "cleaned"),
    "folder": ("cleaned",),
    "images": ("photos",),
    "noise": ("uniform:0.3", "instance:0.2"),
    "noises": ("uniform:0.3",),
    "methods": ("mixup", "cross_entropy,mixup"),
    "out": ("new", "new.npz"),
    "target": ("tiny.npz",),
    "table": ("cifar10", "cifar100"),
}
KEPT_OUT = ("review",)  # waits for people


@cache
def draw_words(number: int, count: int) -> list[list[str]]:
    """Some command lines; few at once would all be simple."""
    found: list[list[str]] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(command_lines())
    def collect(words: list[str]) -> None:
        found.append(words)

    collect()
    return [[word.replace("\0", "") for word in words] for words in found]


def command_lines() -> st.SearchStrategy[list[str]]:
    """A command with some of its options, most of them in their place."""
    lines = []
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        if name not in KEPT_OUT:
            parts = [_words_of(one) for one in signature(command.callback).parameters.values()]
            lines.append(st.tuples(st.just([name]), *parts).map(lambda found: [*chain(*found)]))
    return st.one_of(lines)


def _words_of(parameter: Parameter) -> st.SearchStrategy[list[str]]:
    """What is said of one parameter, often nothing."""
    kind, about = get_args(parameter.annotation)[:2]
    kinds = {kind, *get_args(kind)}
    value = _values_of(kinds)
    if parameter.name in GOOD:
        value = st.one_of(*[st.sampled_from(GOOD[parameter.name])] * 7, value)
    if isinstance(about, ArgumentInfo):
        return st.lists(value, min_size=1, max_size=2 if get_origin(kind) is list else 1)
    names = [one for one in (about.default, *(about.param_decls or ())) if isinstance(one, str)]
    option = st.sampled_from(names or [f"--{parameter.name.replace('_', '-')}"])
    flag = option.map(lambda text: [text])
    said = flag if bool in kinds else st.tuples(option, value).map(list)
    if parameter.default in (Parameter.empty, Path("cleaned")):  # a new folder to clean into
        return said
    return st.one_of([st.just(list[str]())] * 12 + [said])


def _values_of(kinds: set[Any]) -> st.SearchStrategy[str]:
    """Texts that suit a type, known names, and texts that suit nothing."""
    signs = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    plain = st.one_of(
        *[st.sampled_from(KNOWN)] * 3, st.sampled_from(ODD), st.text(signs, max_size=20)
    )
    choices = [kind for kind in kinds if isinstance(kind, str)]  # of a Literal
    choices += [text for kind in kinds if get_origin(kind) is Literal for text in get_args(kind)]
    if choices:
        return st.one_of(st.sampled_from(sorted(choices)), plain)
    if int in kinds:
        return st.one_of(st.integers(-2, 70).map(str), st.integers().map(str), plain)
    if float in kinds:
        return st.one_of(st.floats(-1, 2).map(str), plain)
    return plain
