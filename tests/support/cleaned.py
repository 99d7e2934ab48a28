"""A cleaned folder as `drpl clean` leaves it, made by hand."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from drpl.cleaning.folder import (
    DUPLICATES,
    LOOK,
    OUTLIERS,
    CleanedFolder,
    format_csv,
    write_about,
    write_issues,
)
from drpl.cleaning.review.strata import draw_look
from drpl.files import write_json

CLASSES = ("ash", "birch, white", 'cedar "tall"', "ébène 木")
COLOURS = ("#2f7d4f", "#c9c2a6", "#8a4b2d", "#4b3f6b")
TIME = "2026-01-02T03:04:05Z"


def draw(kind: int, draws: np.random.Generator) -> Image.Image:
    """A tree of one of the kinds; kind -1 is none."""
    image = Image.new("RGB", (48, 40), tuple(draws.integers(180, 250, 3).tolist()))
    pen = ImageDraw.Draw(image)
    x, y = (int(v) for v in draws.integers(14, 26, 2))
    if kind < 0:
        pen.rectangle((4, 26, 44, 34), "#666666")
    elif kind % 2:
        pen.ellipse((x - 9, y - 9, x + 9, y + 9), COLOURS[kind])
    else:
        pen.polygon([(x, y - 12), (x - 10, y + 10), (x + 10, y + 10)], COLOURS[kind])
    if kind >= 0:
        pen.rectangle((x - 1, y + 8, x + 1, y + 14), "#5b3a1e")
    return image


@dataclass(frozen=True)
class Made:
    """The folder, and what each image really shows (-1: no class)."""

    folder: Path
    photos: Path
    truth: list[int]
    given: list[int]

    @property
    def samples(self) -> pd.DataFrame:
        return pd.read_csv(self.folder / "samples.csv", keep_default_na=False, index_col="id")


def make(where: Path, count: int = 40, *, top: str = "", sizes: int = 1, look: int = 0) -> Made:
    """Photos of trees in class folders, every fifth in a wrong one; every eighth is no tree.

    With `look`, so many samples to look at first, groups of look-alikes and a first noise rate.
    """
    draws = np.random.default_rng(3)
    photos, folder = where / "photos", where / "cleaned"
    rows: list[tuple[int, int]] = []
    truth: list[int] = []
    given: list[int] = []
    for number in range(count):
        right = number % len(CLASSES)
        label = (right + 1 + number % 3) % len(CLASSES) if number % 5 == 0 else right
        right = -1 if number % 8 == 3 else right
        rows.append((label, right))
    for label, right in sorted(rows, key=lambda row: CLASSES[row[0]]):  # as folders are read
        number = len(truth)
        path = photos / top / CLASSES[label] / f"tree {number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = draw(right, draws)
        image.resize((image.width * sizes, image.height * sizes)).save(path)
        truth.append(right)
        given.append(label)
    write_run(folder, [str(Path(top) / CLASSES[g] / f"tree {i}.png") for i, g in enumerate(given)],
              given, truth)  # fmt: skip
    write_about(folder, str(photos), photos, CLASSES)
    if look:
        add_look(folder, look)
    return Made(folder, photos, truth, given)


def add_look(folder: Path, count: int) -> None:
    """What `drpl clean` adds for a review that teaches."""
    cleaned = CleanedFolder.load(folder)
    issues, ids = cleaned.issues.reset_index(), draw_look(cleaned, 1)[:count]
    kinds = issues.groupby(["given_label", "suggested_label", "verdict"]).ngroup()
    nth = issues.groupby(kinds).cumcount()
    issues["group"] = np.where(nth < 40, 100 * kinds + nth // 5, -1)  # five look alike
    write_issues(folder, issues)
    rows = cleaned.samples.loc[ids].assign(
        verdict="", outlier_score=1.0, near_given="", near_suggested=""
    )
    others = [name for name in cleaned.classes if name != CLASSES[0]]
    rows["suggested_label"] = [
        next(name for name in (row.suggested_label, *others, CLASSES[0]) if name != row.given_label)
        for row in rows.itertuples()
    ]
    write_issues(folder, rows.reset_index(), LOOK)
    rate = {"value": 0.3, "low": 0.1, "high": 0.45}
    write_json(folder / "clean.json", {"noise rate": rate})


def write_run(folder: Path, paths: list[str], given: list[int], truth: list[int]) -> None:
    """samples.csv and issues.csv, the model being right about everything."""
    draws = np.random.default_rng(4)
    names = np.array(CLASSES, dtype=object)
    count = len(given)
    wrong = np.array(given) != np.array(truth)
    suggested = [t if t >= 0 else (g + 1) % len(CLASSES) for g, t in zip(given, truth, strict=True)]
    samples = pd.DataFrame(
        {
            "id": np.arange(count),
            "path": paths,
            "given_label": names[given],
            "suggested_label": names[suggested],
            "confidence": draws.uniform(0.6, 1, count).round(4),
            "loss": draws.uniform(0, 3, count).round(4),
            "p_noisy": np.where(wrong, draws.uniform(0.7, 1, count), 0.01).round(4),
            "flagged": wrong,
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "samples.csv").write_text(samples.to_csv(index=False, lineterminator="\n"))
    clean = [
        [i for i in range(count) if not wrong[i] and given[i] == kind]
        for kind in range(len(CLASSES))
    ]
    issues = samples[wrong].sort_values("p_noisy", ascending=False, kind="stable")
    near = [" ".join(map(str, clean[given[i]][:4])) for i in issues["id"]]
    other = [" ".join(map(str, clean[suggested[i]][:4])) for i in issues["id"]]
    verdicts = ["outside" if truth[i] < 0 else "mislabelled" for i in issues["id"]]
    write_issues(
        folder,
        issues.assign(verdict=verdicts, outlier_score=1.0, near_given=near, near_suggested=other),
    )


def make_many(where: Path, count: int, listed: int) -> Path:
    """A folder with `count` small images, of which `listed` are issues."""
    draws, classes = np.random.default_rng(5), [f"class {k}" for k in range(20)]
    photos, folder, names = where / "photos", where / "cleaned", np.array(classes, dtype=object)
    photos.mkdir(parents=True)
    for k in range(count):  # a hundred files with many names
        path = photos / f"IMG_{k:05d}.png"
        if k < 100:
            draw(k % len(CLASSES), draws).save(path)
        else:
            path.hardlink_to(photos / f"IMG_{k % 100:05d}.png")
    given, wrong = draws.integers(0, 20, count), np.zeros(count, bool)
    wrong[draws.permutation(count)[:listed]] = True
    table = pd.DataFrame(
        {
            "id": np.arange(count),
            "path": [f"IMG_{k:05d}.png" for k in range(count)],
            "given_label": names[given],
            "suggested_label": names[np.where(wrong, (given + 1) % 20, given)],
            "confidence": draws.uniform(0.1, 1, count),
            "loss": 1.0,
            "p_noisy": np.where(wrong, draws.uniform(0.5, 1, count), draws.uniform(0, 0.5, count)),
            "flagged": wrong,
        }
    )
    folder.mkdir()
    table.to_csv(folder / "samples.csv", index=False)
    issues = table[wrong].sort_values("p_noisy", ascending=False)
    more = {"verdict": "mislabelled", "outlier_score": 1.0, "near_given": "", "near_suggested": ""}
    write_issues(folder, issues.assign(**more))
    write_about(folder, str(photos), photos, classes)
    return folder


def make_large(where: Path, count: int) -> Path:
    """A folder with `count` issues, whose images are not there."""
    draws = np.random.default_rng(5)
    classes = [f"class {k}" for k in range(1000)]
    names = np.array(classes, dtype=object)
    given = draws.integers(0, 1000, count)
    table = pd.DataFrame(
        {
            "id": np.arange(count),
            "path": [f"{k}.jpg" for k in range(count)],
            "given_label": names[given],
            "suggested_label": names[(given + 1 + draws.integers(0, 999, count)) % 1000],
            "p_noisy": np.sort(draws.uniform(0.5, 1, count))[::-1],
            "confidence": draws.uniform(0.1, 1, count),
            "verdict": np.array(["mislabelled", "outside", "ambiguous"])[
                draws.integers(0, 3, count)
            ],
            "outlier_score": 1.0,
            "near_given": "",
            "near_suggested": "",
        }
    )
    where.mkdir(parents=True, exist_ok=True)
    table.assign(loss=1.0, flagged=True).to_csv(where / "samples.csv", index=False)
    write_issues(where, table)
    write_about(where, str(where), where, classes)
    return where


def rows(path: Path) -> list[dict[str, str]]:
    """A CSV file as people's programs read it."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(io.StringIO(file.read(), newline="")))


def add_found(made: Made) -> list[int]:
    """Near-duplicates and outliers as `drpl clean` lists them on features; ids of the outliers.

    Two pairs are conflicts, with an image in common; one is a leak, one a mere copy.
    """
    table = made.samples
    first, second, third, *_ = (table.index[table["given_label"] == name][0] for name in CLASSES)
    copies = [int(number) for number in table.index[table["given_label"] == CLASSES[3]][:2]]
    held_out = made.photos / "held out.png"
    draw(0, np.random.default_rng(6)).save(held_out)
    pairs = [
        ((first, "train"), (second, "train"), 0.99, "conflict"),
        ((second, "train"), (third, "train"), 0.98, "conflict"),
        ((first, "train"), (7, "test"), 0.97, "leak conflict"),
        ((copies[0], "train"), (copies[1], "train"), 0.96, "copy"),
        ((7, "test"), (8, "test"), 0.95, "copy"),
    ]
    rows: list[Sequence[object]] = [list(DUPLICATES)]
    for *sides, similarity, kind in pairs:
        named = [
            (part, number, table.at[number, "path"], table.at[number, "given_label"])
            if part == "train"
            else (part, number, held_out.name, CLASSES[1])
            for number, part in sides
        ]
        rows.append([*named[0], *named[1], similarity, kind])
    (made.folder / "duplicates.csv").write_text(format_csv(rows))
    paired = {first, second, third, *copies}
    strange = [i for i, kind in enumerate(made.truth) if kind < 0 and i not in paired][:5]
    listed = [
        (i, table.at[i, "path"], table.at[i, "given_label"], CLASSES[0], 0.95 - k / 20)
        for k, i in enumerate(strange)
    ]
    (made.folder / "outliers.csv").write_text(format_csv([list(OUTLIERS), *listed]))
    return strange
