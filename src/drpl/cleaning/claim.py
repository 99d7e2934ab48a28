"""A cleaned folder belongs to its data, which `plan.json` describes, and how they were read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from drpl.cleaning.records import PlanRecord
from drpl.data.file_states import FileStates
from drpl.data.readers.folder import check_no_images
from drpl.data.sources import ReadOptions, load
from drpl.encoders.own_features import is_features_file
from drpl.errors import RunError
from drpl.files import read_json
from drpl.runs.experiment import AnyData, as_splits
from drpl.runs.folder import OTHERS

PLAN = "plan.json"


def describe_data(data: AnyData, features: str, options: ReadOptions) -> dict[str, Any]:
    """What is to be cleaned, told from everything else; no image is decoded for it."""
    plain = replace(options, features=None, progress=None, lazy=True)
    found = load(data, plain) if isinstance(data, str) else as_splits(data)
    about: dict[str, Any] = {
        "images": found.train.identify(),
        "test": found.test.identify() if found.test else "none",
        "size": options.size,
        "features": features,
        "mirrored": options.mirrored,
    }
    if found.train.tags is not None:
        about["several labels"] = True
    if is_features_file(features):
        about["vectors"] = FileStates(Path(), [features]).digest
    return about


def check_claim(folder: Path, about: dict[str, Any]) -> str | None:
    """Raise if other data live in a folder, or images; a note if nobody knows which data do."""
    if not (folder / PLAN).exists() and not (folder / "clean.json").exists():
        check_no_images(folder)
        return None
    if (folder / PLAN).exists():
        kept = read_json(folder / PLAN, PlanRecord).get("data")
    else:
        kept = read_json(folder / "clean.json").get("data")
    if kept is None:
        return (
            f"{folder} was made by an earlier version, which did not record its data: whether "
            "these are the same is not known"
        )
    for name in (*about, *kept):
        if about.get(name) == kept.get(name):
            continue
        if name in ("images", "test", "vectors"):
            what = {**OTHERS, "vectors": "other features"}[name]
            raise RunError(
                f"{folder} was made of {what} than it was now given, or a file has changed since; "
                "use another folder"
            )
        raise RunError(
            f"{folder} was made with {name} {kept.get(name)}, but {about.get(name)} was asked for; "
            "use another folder"
        )
    return None
