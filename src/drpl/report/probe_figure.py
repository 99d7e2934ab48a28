"""What runs know at each depth, as one figure."""

import pandas as pd

from drpl.report.style import COLOURS, EITHER, STROKES, Picture, legend, panels

UNTRAINED = "untrained"
MARKS = ("o", "s", "^", "D", "v", "P", "X")


def drawn(table: pd.DataFrame, target: str, chance: float) -> tuple[bytes, str]:
    """PNG and SVG: accuracy against depth, a line a run; `chance` is that of guessing.

    The colour says the noise, the mark and the dashes say the method.
    """
    trained, blank = table[table.method != UNTRAINED], table[table.method == UNTRAINED]
    up = f"accuracy (%), guessing gives {chance:.0f}"
    title = f"Linear probes on {target}"
    figure, (axes,) = panels(1, title, "after block", up, size=(7.2, 3.3))
    noises, methods = list(dict.fromkeys(trained.noise)), list(dict.fromkeys(trained.method))
    for rows in by_run(trained):
        first = rows.iloc[0]
        noise, method = noises.index(first.noise), methods.index(first.method)
        axes.plot(
            rows.block,
            rows.accuracy,
            color=COLOURS[noise % len(COLOURS)],
            ls=STROKES[method % len(STROKES)],
            marker=MARKS[method % len(MARKS)],
            ms=5,
            lw=1.5,
            label=named(first, several=trained.seed.nunique() > 1),
        )
    for k, rows in enumerate(by_run(blank)):
        label = UNTRAINED if k == 0 else None
        axes.plot(rows.block, rows.accuracy, color=EITHER, lw=1, marker=".", label=label)
    axes.set_xticks(sorted(table.block.unique()))
    legend(axes, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.2)
    about = "Accuracy of a linear classifier on features after each block."
    return Picture("probes", title, about, figure).both()


def by_run(table: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of each run, which begin with its first block."""
    return [rows for _, rows in table.groupby((table.block == 1).cumsum())]


def named(row: pd.Series, several: bool) -> str:
    """A run in the legend."""
    seed = f", seed {row.seed}" if several else ""
    return f"{row.method}, {'no noise' if row.noise == 'none' else row.noise}{seed}"
