"""From data with doubtful labels to a list of the wrong ones, and all that goes with it.

    settings that suit the data and the time     planning
    DRPL, once with its final model, then with other seeds if asked
    what the networks say of every label         judging
    how much is wrong, and what is mistaken for what    estimating

The folder is that of a run, with more in it: issues.csv, noise-matrix.csv, clean.json, summary.md,
report.html.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image

from drpl.cleaning import plan as planning
from drpl.cleaning.estimate import Rate, noise_matrix, noise_rate, true_classes
from drpl.cleaning.folder import VERDICTS, Cleaned, write_about, write_issues
from drpl.cleaning.judge import Judgement, judge
from drpl.cleaning.plan import Choice
from drpl.cleaning.sections import sections
from drpl.cleaning.summary import told
from drpl.config.compose import compose
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.decoding import to_picture
from drpl.data.sources import ReadOptions, load
from drpl.errors import RunError
from drpl.files import write_atomic, write_json
from drpl.methods.drpl import Config
from drpl.report.noise_figure import draw_noise
from drpl.report.page import report
from drpl.report.table import to_csv
from drpl.runs import execute as pipeline
from drpl.runs.display import Display, duration
from drpl.runs.folder import Result

PLAN = "plan.json"
PAIRS = 10  # confusions that are kept


@dataclass(frozen=True)
class Cleaning:
    """What `clean` found: its folder, the suspicious samples and the figures in `clean.json`."""

    folder: Path
    figures: dict[str, Any]

    @property
    def issues(self) -> pd.DataFrame:
        """`issues.csv`: suspicious samples, worst first."""
        return pd.read_csv(self.folder / "issues.csv", keep_default_na=False)

    @property
    def rate(self) -> Rate:
        """The share of wrong labels."""
        return Rate(*self.figures["noise rate"].values())

    @property
    def text(self) -> str:
        """The summary in words."""
        return (self.folder / "summary.md").read_text("utf-8")


def clean(
    data: str | DatasetSplits | Dataset,
    out: Path | str,
    *,
    budget: str = "10m",
    repeats: int = 1,
    seed: int = 1,
    read_options: ReadOptions | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> Cleaning:
    """Find the wrong labels of a data set, say what they should be, and train a robust model.

    `data` is a name, a path, or a data set in memory. Settings follow from the data and from what
    this machine does in the time of `budget` (10m, 2h); they are kept in the folder, so that a
    stopped call is continued by the same one. `repeats` trains with more seeds, for a better
    interval of the noise rate.
    """
    folder, length = Path(out), planning.seconds(budget)
    if (folder / "clean.json").exists():
        return finished(folder, seed, repeats)
    whole = load(data, read_options) if isinstance(data, str) else pipeline.as_data(data)
    with Display(quiet=quiet) as display:
        choice = chosen(folder, whole, length, repeats, device, display)
    shared = {
        "preset": choice.preset,
        "settings": choice.settings,
        "quiet": quiet,
        "device": device,
    }
    run: dict[str, Any] = {**shared, "track_every": max(1, round(3 * choice.effort))}
    result = pipeline.train(choice.data, seed=seed, out=folder, **run)
    config = compose(Config, "drpl", [choice.preset], choice.settings)
    where = pipeline.choose_device(device)
    judgements = [judge(folder, choice.data, config, seed, where)]
    for other in range(seed + 1, seed + repeats):
        place = folder / "repeats" / f"seed-{other}"
        pipeline.train(choice.data, seed=other, out=place, goal="detect", **run)
        judgements.append(judge(place, choice.data, config, other, where))
    source = data if isinstance(data, str) else whole.name
    return written(result, source, whole, judgements, seed)


def chosen(
    folder: Path,
    data: DatasetSplits,
    budget: float,
    repeats: int,
    device: str | None,
    display: Display,
) -> Choice:
    """The settings of a call that was stopped, or else those that suit data and time."""
    path = folder / PLAN
    if path.exists():
        kept = json.loads(path.read_text("utf-8"))
        side, shape = kept["side"], data.train.images.shape
        smaller = data.resize(side) if side and side < shape[1] else data
        return Choice(smaller, kept["preset"], tuple(kept["settings"]), kept["effort"])
    choice, seconds = planning.within(data, budget, repeats, device)
    shape = choice.data.train.images.shape
    kept = {
        "side": shape[1] if len(shape) == 3 else None,
        "preset": choice.preset,
        "settings": list(choice.settings),
        "effort": choice.effort,
    }
    write_json(path, kept)
    display.note(f"chosen: {choice.text()}; at most about {duration(seconds)}")
    if seconds > budget:
        display.note("that is more than the budget, but nothing quicker would learn enough")
    return choice


def finished(folder: Path, seed: int, repeats: int) -> Cleaning:
    """What an earlier call found, if it was asked the same."""
    figures = json.loads((folder / "clean.json").read_text("utf-8"))
    for name, asked in (("seed", seed), ("repeats", repeats)):
        if figures[name] != asked:
            raise RunError(
                f"{folder} was made with {name} {figures[name]}, but {asked} was asked for; "
                "use another folder"
            )
    return Cleaning(folder, figures)


def written(
    result: Result, source: str, data: DatasetSplits, judgements: list[Judgement], seed: int
) -> Cleaning:
    """All tables, pictures and words; last `clean.json`, whose presence means that all is there."""
    folder, train, run = result.folder, data.train, judgements[0]
    rate = noise_rate(judgements, seed)
    issues = issues_table(result, run, train, rate)
    write_issues(folder, issues)
    write_about(folder, source, root_of(source), train.classes)
    matrix = write_matrix(folder, data, run)
    if train.paths is None and len(train.images.shape) == 3:
        write_images(folder / "images", train, issues)
    figures = {
        "seed": seed,
        "repeats": len(judgements),
        "samples": len(train),
        "noise rate": {"value": rate.value, "low": rate.low, "high": rate.high},
        "issues": len(issues),
        "verdicts": {name: int((issues["verdict"] == name).sum()) for name in VERDICTS},
        "classes": by_class(train, run),
        "pairs": pairs(matrix, train.classes),
        "notes": list(data.notes),
    }
    write_atomic(folder / "summary.md", told(figures, folder))
    parts = sections(Cleaned.load(folder), figures, matrix.to_numpy())
    report([result], folder / "report.html", sections=parts, images=root_of(source))
    write_json(folder / "clean.json", figures)
    return Cleaning(folder, figures)


def issues_table(result: Result, run: Judgement, train: Dataset, rate: Rate) -> pd.DataFrame:
    """The suspicious samples, worst first."""
    index = run.issues.nonzero().flatten()
    noisy, (confidence, suggested) = run.noisy(rate.value), run.best
    names = np.array(train.classes, dtype=object)
    table = pd.DataFrame(
        {
            "id": index.numpy(),
            "path": [train.paths[i] if train.paths else "" for i in index.tolist()],
            "given_label": names[run.given[index].numpy()],
            "suggested_label": names[suggested[index].numpy()],
            "p_noisy": noisy[index].numpy(),
            "confidence": confidence[index].double().numpy(),
            "verdict": [run.verdicts[i] for i in index.tolist()],
            "strangeness": run.outlier_score[index].double().numpy(),
            "near_given": run.near(index, run.given[index]),
            "near_suggested": run.near(index, suggested[index]),
            "loss": result.samples["loss"].to_numpy()[index.numpy()],
        }
    )
    order = ["p_noisy", "loss", "id"]
    return table.sort_values(order, ascending=[False, False, True], kind="stable")


def write_matrix(folder: Path, data: DatasetSplits, run: Judgement) -> pd.DataFrame:
    """P(given | true) as CSV and picture, beside the true one where that is known."""
    names, given = data.train.classes, data.train.labels
    found = noise_matrix(true_classes(run), given)
    table = pd.DataFrame(found.numpy(), index=pd.Index(names, name="true"), columns=list(names))
    write_atomic(folder / "noise-matrix.csv", to_csv(table.reset_index()))
    title = f"Estimated from {len(given):,} samples: P(given label | true class)"
    write_atomic(folder / "noise-matrix.png", draw_noise(title, found.numpy(), names, names, []))
    truth = data.train.truth
    if truth is not None:
        inside = truth.in_distribution
        right = torch.zeros(len(given), len(names))
        right[inside, truth.labels[inside]] = 1
        real = noise_matrix(right, given).numpy()
        table = pd.DataFrame(real, index=pd.Index(names, name="true"), columns=list(names))
        write_atomic(folder / "noise-matrix-true.csv", to_csv(table.reset_index()))
    return pd.DataFrame(found.numpy(), index=list(names), columns=list(names))


def write_images(folder: Path, train: Dataset, issues: pd.DataFrame) -> None:
    """The issues and their neighbours as files, for data that are none."""
    near = " ".join([*issues["near_given"], *issues["near_suggested"]]).split()
    wanted = sorted({*issues["id"].tolist(), *map(int, near)})
    folder.mkdir(exist_ok=True)
    for part in torch.tensor(wanted, dtype=torch.int64).split(512):
        for number, pixels in zip(part.tolist(), train.images.load(part), strict=True):
            Image.fromarray(to_picture(pixels)).save(folder / f"{number}.png")


def root_of(source: str) -> Path | None:
    """Where the paths of a data set start: its folder, or that of the list."""
    path = Path(source)
    return path if path.is_dir() else path.parent if path.suffix in (".csv", ".parquet") else None


def by_class(train: Dataset, run: Judgement) -> list[dict[str, Any]]:
    """For each class, how many samples are called so and how many of these labels are doubted."""
    counts = torch.bincount(train.labels, minlength=len(train.classes)).tolist()
    wrong = torch.bincount(train.labels[run.issues], minlength=len(train.classes)).tolist()
    rows = zip(train.classes, counts, wrong, strict=True)
    return [{"name": name, "samples": n, "issues": k, "share": k / n} for name, n, k in rows]


def pairs(matrix: pd.DataFrame, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """What is mistaken for what, most often first."""
    shares = [
        (float(matrix.loc[true, given]), true, given)
        for true in classes
        for given in classes
        if true != given
    ]
    worst = sorted(shares, key=lambda pair: -pair[0])[:PAIRS]
    return [{"true": true, "given": given, "share": share} for share, true, given in worst]
