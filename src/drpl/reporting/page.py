"""Results in, one self-contained HTML file out. Reads run folders and nothing else."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from drpl.files import write_whole
from drpl.reporting.figures import accuracy_curves, loss_histogram
from drpl.result import Result


def report(results: Sequence[Result], out: Path | str = "report.html") -> Path:
    """Write the page that compares these runs."""
    names = [title(result) for result in results]
    runs = [
        {
            "name": name,
            "summary": result.summary,
            "folder": str(result.folder),
            "figures": [loss_histogram(result, stage) for stage in result.summary["stages"]],
            "suspicious": result.suspicious(20).to_dict("records"),
            "settings": (result.folder / "config.toml").read_text(),
        }
        for name, result in zip(names, results, strict=True)
    ]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": percent, "share": share}
    template = environment.from_string(files("drpl.reporting").joinpath("page.html").read_text())
    write_whole(Path(out), template.render(runs=runs, curves=accuracy_curves(results, names)))
    return Path(out)


def title(result: Result) -> str:
    """drpl, digits, uniform:0.6, seed 1."""
    s: dict[str, Any] = result.summary
    parts = (s["method"], s["dataset"], s["noise"]["spec"], f"seed {s['seed']}")
    return ", ".join(part for part in parts if part)


def percent(value: float | None) -> str:
    """A figure of the table, or a dash where it is not known."""
    return "–" if value is None else f"{value:.2f}"


def share(value: float | None) -> str:
    """A share between 0 and 1, or a dash where it is not known."""
    return "–" if value is None else f"{value:.3f}"
