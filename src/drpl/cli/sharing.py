"""Options that several commands share: a command names a group of them as one parameter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any

Command = Callable[..., None]


@dataclass(frozen=True)
class Group:
    """Options with their types and defaults, and what a command is given in their place."""

    options: Mapping[str, tuple[Any, Any]]
    gather: Callable[..., Any]


def takes(**groups: Group) -> Callable[[Command], Command]:
    """Give a command the options of each group in place of the parameter of that name.

    Such parameters are keyword-only, and so is what follows them.
    """

    def decorate(command: Command) -> Command:
        parameters: list[Parameter] = []
        for parameter in signature(command).parameters.values():
            if parameter.name not in groups:
                parameters.append(parameter)
                continue
            for name, (hint, default) in groups[parameter.name].options.items():
                kind = Parameter.KEYWORD_ONLY
                parameters.append(Parameter(name, kind, default=default, annotation=hint))

        @wraps(command)
        def with_options(**given: Any) -> None:
            gathered = {
                name: group.gather(**{option: given.pop(option) for option in group.options})
                for name, group in groups.items()
            }
            command(**given, **gathered)

        with_options.__annotations__ = {one.name: one.annotation for one in parameters}
        with_options.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        return with_options

    return decorate
