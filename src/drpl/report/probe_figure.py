"""What runs know at each depth, as one figure."""

import pandas as pd

from drpl.report.style import COLOURS, DASHES, EITHER, Picture, add_legend, make_panels

UNTRAINED = "untrained"
MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw_probes(table: pd.DataFrame, target: str, chance: float) -> Picture:
    """Accuracy against depth, a line a run; `chance` is that of guessing.

    The colour says the noise, the mark and the dashes say the method.
    """
    trained, blank = table[table.method != UNTRAINED], table[table.method == UNTRAINED]
    up = f"accuracy (%), guessing gives {chance:.0f}"
    title = f"Linear probes on {target}"
    figure, (axes,) = make_panels(1, title, "after block", up, size=(7.2, 3.3))
    noises, methods = list(trained.noise.unique()), list(trained.method.unique())
    for rows in split_by_run(trained):
        first = rows.iloc[0]
        noise, method = noises.index(first.noise), methods.index(first.method)
        shown = "no noise" if first.noise == "none" else first.noise
        seed = f", seed {first.seed}" if trained.seed.nunique() > 1 else ""
        axes.plot(
            rows.block,
            rows.accuracy,
            color=COLOURS[noise % len(COLOURS)],
            ls=DASHES[method % len(DASHES)],
            marker=MARKS[method % len(MARKS)],
            ms=5,
            lw=1.5,
            label=f"{first.method}, {shown}{seed}",
        )
    for k, rows in enumerate(split_by_run(blank)):
        label = UNTRAINED if k == 0 else None
        axes.plot(rows.block, rows.accuracy, color=EITHER, lw=1, marker=".", label=label)
    axes.set_xticks(sorted(table.block.unique()))
    add_legend(axes, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.2)
    return Picture("probes", title, figure)


def split_by_run(table: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of each run, which begin with its first block."""
    return [rows for _, rows in table.groupby((table.block == 1).cumsum())]
