"""What bears out a claim: cases in which it was tried, each with its figures and a rule.

The functions `find_...` of the modules beside this one take the result files and yield cases; what
was not measured yet yields none. Where the paper prints the same figures they are a case as well,
which shows what the rule makes of them but does not count. A case that lacks runs bears nothing
out, since what is left of them may be the easy ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.lookup import KINDS, PEOPLE, PUBLISHED, Figure, Ground, Results, Where

LITERAL, OURS = "drpl (literal)", "drpl"
RIVALS = ("cross_entropy", "forward", "joint", "mixup", "gce", "bootstrap", "dmi", "pencil")
ALIKE, UNIFORM = ("nonuniform", "ood-nonuniform"), ("uniform", "ood")
EVERY = (*KINDS, PEOPLE)
MEMORISED = "benchmarks/results/memorised"


@dataclass(frozen=True)
class Case:
    """One place where a claim was tried: what was measured, and whether it bears the claim out.

    None: nobody can say, since runs are missing.
    """

    name: str
    figures: Mapping[str, Figure]  # by the head of the column
    holds: bool | None

    @property
    def published(self) -> bool:
        """Whether the figures are the paper's."""
        return any(figure.file == PUBLISHED for figure in self.figures.values())


Found = Iterator[Case]


def judge(name: str, figures: Mapping[str, Figure | None], rule: Callable[..., bool]) -> Found:
    """The case, if all its figures are there; the rule takes their values in this order."""
    known = {head: figure for head, figure in figures.items() if figure}
    if len(known) == len(figures):
        whole = not any(figure.missing for figure in known.values())
        yield Case(name, known, rule(*(one.value for one in known.values())) if whole else None)


def list_places(
    results: Results, kinds: Sequence[str] = EVERY
) -> Iterator[tuple[Ground, str, Where]]:
    """Data set, name of the case, and its rows: all levels of a kind of noise together."""
    for ground in results.list_grounds():
        for kind in kinds:
            if levels := results.list_levels(ground, kind):
                name = f"{ground.title}, {KINDS.get(kind, 'human labels')}"
                yield ground, name, {"dataset": ground.dataset, "noise": list(levels)}


def find_drpl(
    results: Results, ground: Ground, where: Where, column: str, name: str = "table"
) -> Figure | None:
    """A figure of the paper's own DRPL where that was run, or else of ours, which is noted."""
    file = ground.file(name)
    note = "" if file == PUBLISHED else "ours"
    return results.find_mean(file, column, {**where, "method": LITERAL}) or results.find_mean(
        file, column, {**where, "method": OURS}, note
    )


def quote_table(table: str, column: str = "best") -> Callable[[Results], Found]:
    """Only what the paper prints in one of its tables: DRPL, and the best of the others."""

    def find(results: Results) -> Found:
        for noise in results.list_values(PUBLISHED, "noise", {"table": table}):
            where = {"table": table, "noise": noise}
            others = results.list_values(PUBLISHED, "method", where)
            others.remove(OURS)
            figures = {"DRPL": results.find_mean(PUBLISHED, column, {**where, "method": OURS})}
            if best := results.find_best(PUBLISHED, column, where, others):
                figures["best other"] = best
            title = "the web's noise" if table.startswith("webvision") else noise
            yield from judge(f"*paper*: {title}", figures, lambda ours, other=0.0: ours > other)

    return find
