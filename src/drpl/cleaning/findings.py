"""What features tell of cleaned data: lists in the folder, counts and galleries in the report."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from markupsafe import Markup

from drpl.analysis.copies import open_pictures
from drpl.analysis.costs import measure_cost
from drpl.analysis.findings import DUPLICATES, OUTLIERS, Findings, look_over
from drpl.data.dataset import DatasetSplits
from drpl.report.gallery import embed
from drpl.report.numbers import Number, look_up, tag_name
from drpl.report.page import Section
from drpl.runs.display import duration
from drpl.runs.gallery import SIDE

FINDINGS = "findings"  # where clean.json has the counts
SHOWN = 24  # pairs, and outliers
COPIED = (200, 100, 50, 25)  # images that copies are made of: the fewer, the rougher the threshold
SHARE, FEW = 0.05, 5.0  # of the budget, and seconds, that may be spent on it in any case


def choose_copies(data: DatasetSplits, budget: float) -> tuple[int, str]:
    """Of how many images to make copies, 0 where encoded data are not to be looked over, and why.

    Data without pictures are not looked over either, but nobody will miss it.
    """
    if data.encoding is None or data.train.pictures is None:
        return 0, ""
    cost, allowed = measure_cost(data), max(FEW, SHARE * budget)
    for copied in COPIED:
        if cost.of(copied) <= allowed:
            return copied, ""
    return 0, (
        "near-duplicates and outliers were not looked for: that would take about "
        f"{duration(cost.of(COPIED[-1]))}, more than {SHARE:.0%} of the time; `drpl doctor` with "
        f"--features {data.encoding.encoder} finds them"
    )


def write_findings(data: DatasetSplits, folder: Path, copied: int = COPIED[0]) -> Findings:
    """Look encoded data over, and write `duplicates.csv` and `outliers.csv`.

    The findings' `summarize()` is what clean.json keeps.
    """
    findings = look_over(data, copied)
    findings.write(folder)
    return findings


def build_finding_sections(findings: Findings, figures: dict[str, Any], key: str) -> list[Section]:
    """The parts "Near-duplicates" and "Outliers"; clean.json has the counts under `key`."""
    return [
        Section("Near-duplicates", _show_duplicates(findings, figures, key), first=True),
        Section("Outliers", _show_outliers(findings, figures, key), first=True),
    ]


def _show_duplicates(findings: Findings, figures: dict[str, Any], key: str) -> str:
    """How many there are, and the pairs that matter most."""
    text = Markup(
        "<p>{} pairs of images are near-duplicates. {} of them have different labels, so that one "
        "of the two is wrong; {} test images have a near-duplicate in the training part. The whole "
        "list is <code>{}</code>.</p>"
    ).format(
        *(_read(figures, f"{key}.duplicates.{name}") for name in ("pairs", "conflicts", "leaks")),
        DUPLICATES,
    )
    if findings.duplicates.calibration:
        kinds = [
            Markup("{}&nbsp;% of the {}").format(
                _read(figures, f"{key}.duplicates.recall of copies.{kind}", percent=True), kind
            )
            for kind in findings.duplicates.calibration.recall
        ]
        false = _read(figures, f"{key}.duplicates.false pairs", percent=True)
        text += Markup(
            '<p class="about">Copies were made of some images to measure what is found: {}. Of '
            "pairs of different images of one class {}&nbsp;% would be taken for copies.</p>"
        ).format(Markup(", ").join(kinds), false)
    pairs = findings.duplicates.pairs[findings.ranked[:SHOWN]]
    images = list(_make_tiles(findings, pairs.flatten().tolist()))
    tiles = [_list_tiles(images[k : k + 2]) for k in range(0, len(images), 2)]
    return str(text + Markup('<div class="pairs">{}</div>').format(Markup().join(tiles)))


def _show_outliers(findings: Findings, figures: dict[str, Any], key: str) -> str:
    """How many there are, the worst of them, and classes that look like one."""
    text = Markup(
        "<p>{} images look like none of the classes: what lies near them is far, or of many "
        "classes. The whole list is <code>{}</code>.</p>"
    ).format(_read(figures, f"{key}.outliers"), OUTLIERS)
    text += _list_tiles(list(_make_tiles(findings, findings.around.outliers[:SHOWN].tolist())))
    alike = [
        Markup("<li>{} and {}: {}&nbsp;%</li>").format(
            tag_name(one.first),
            tag_name(one.second),
            _read(figures, f"{key}.alike.{k}.share", percent=True),
        )
        for k, one in enumerate(findings.around.alike)
    ]
    if alike:
        text += Markup(
            "<p>Classes that look like one, and how often their images are each other's neighbours "
            "as a share of how often they are their own:</p><ul>{}</ul>"
        ).format(Markup().join(alike))
    return str(text)


def _read(figures: dict[str, Any], key: str, *, percent: bool = False) -> Number:
    """A figure with its source."""
    return Number(look_up(figures, key), (0,), "clean.json", key, 0, "", percent)


def _make_tiles(findings: Findings, ids: Sequence[int]) -> Iterator[Markup]:
    """Images with their labels; nothing where there are no pictures."""
    images = findings.images
    if images.pictures is None or not ids:
        return
    for i, picture in zip(ids, open_pictures(images.pictures, torch.tensor(ids)), strict=True):
        picture.thumbnail((SIDE, SIDE))
        part, _, path, label = images.name(i)
        what = Markup("{} ({})").format(tag_name(label), part)
        yield Markup('<li><img src="{}" alt="{}" title="{}">{}</li>').format(
            embed(picture), label, path, what
        )


def _list_tiles(tiles: Sequence[Markup]) -> Markup:
    """A row of images."""
    return Markup('<ul class="tiles">{}</ul>').format(Markup().join(tiles)) if tiles else Markup()
