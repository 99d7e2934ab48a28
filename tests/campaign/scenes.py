"""What is attacked: small data sets, and what the commands make of them."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tests.campaign.running import run
from tests.support.cleaned import make
from tests.support.tiny import brief_options, tiny_pixels

BRIEF = (*brief_options("drpl", 2, {"network": "mlp", "width": 8}), "--quiet")
TRAIN = ("train", "photos", "--noise", "uniform:0.2", "--out", "trained", *BRIEF)
OFTEN = ("--save-every", "0")
# No time at all: the quickest settings, and the same ones on every machine.
SHORT = ("--budget", "0s", "--features", "none", "--repeats", "1", "--quiet")
CLEAN = ("clean", "photos", "-o", "cleaned", *SHORT)
LISTED = "trees/cleaned"  # a longer training would list something; this has a list
DATA = ("photos", "tiny.npz")  # that the commands below read
NAMES = ("top", "left", "middle")


@dataclass(frozen=True)
class Job:
    """A command that writes, and which of its files say what came out."""

    words: tuple[str, ...]
    out: str
    told: tuple[str, ...]
    resumed: bool = False  # whether it goes on with what a killed one left


JOBS = {
    "train": Job(
        ("train", "tiny.npz", "--noise", "uniform:0.3", "--out", "run", *OFTEN, *BRIEF),
        "run",
        ("samples.csv", "model.safetensors", "config.toml"),
        resumed=True,
    ),
    "detect": Job(
        ("detect", "photos", "--method", "mixup", "--out", "found", *OFTEN, "--quiet",
         *brief_options("mixup", 2, {"network": "mlp", "width": 8})),
        "found",
        ("samples.csv", "config.toml"),
        resumed=True,
    ),
    "clean": Job(
        ("clean", "tiny.npz", "-o", "new", *SHORT),
        "new",
        ("issues.csv", "samples.csv", "clean.json", "data.json"),
        resumed=True,
    ),
    "noise": Job(
        ("noise", "photos", "--noise", "uniform:0.3", "-o", "noisy"),
        "noisy",
        ("labels.csv", "manifest.json"),
        resumed=True,
    ),
    "apply": Job(
        ("apply", LISTED, "-o", "better", "--accept-above", "0.5"),
        "better",
        ("labels.csv", "audit.csv", "dropped.csv", "applied.json"),
    ),
    "links": Job(
        ("apply", LISTED, "-o", "linked", "--accept-above", "0.5", "--links"),
        "linked",
        ("audit.csv", "applied.json"),
    ),
    "report": Job(("report", "trained", "-o", "page.html"), "", ("page.html",)),
    "predict": Job(("predict", "trained", "photos", "-o", "named.csv", "-q"), "", ("named.csv",)),
    "score": Job(("score", "trained", "-o", "scores.csv"), "", ("scores.csv",)),
}  # fmt: skip


def build_scene(where: Path) -> Path:
    """Data of several kinds, a finished run, a cleaned folder, and one with a list."""
    where.mkdir(parents=True)
    write_data(where)
    for words in (TRAIN, CLEAN):
        ended = run(words, where)
        if ended.code:
            raise RuntimeError(f"{' '.join(words)}: {ended.err}")
    make(where / "trees", look=10)
    for place in ("cleaned", LISTED):
        log = ["time,who,id,action,label,why"]
        for row in (where / place / "samples.csv").read_text().splitlines()[1:3]:
            log.append(f"2026-01-02T03:04:05Z,Ann,{row.split(',')[0]},outside,,")
        (where / place / "decisions.csv").write_text("\n".join(log) + "\n")
    shutil.rmtree(where / ".drpl-cache", ignore_errors=True)
    return where


def write_data(where: Path, part: str = "train") -> None:
    """The same images as arrays, as files and as a list; those of another part are others."""
    pixels, labels = tiny_pixels(48, part)
    test, test_labels = tiny_pixels(12, "test")
    given = labels.clone()
    given[::6] = (given[::6] + 1) % 3
    np.savez(where / "tiny.npz", x=pixels.numpy(), y=given.numpy(), x_test=test.numpy(),
             y_test=test_labels.numpy(), classes=NAMES)  # fmt: skip
    rows = ["path,label"]
    for k, (image, label) in enumerate(zip(pixels, given.tolist(), strict=True)):
        path = where / "photos" / NAMES[label] / f"{k}.{('png', 'bmp', 'jpg')[k % 3]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(path)
        rows.append(f"{path.relative_to(where)},{NAMES[label]}")
    (where / "list.csv").write_text("\n".join(rows) + "\n")


def change_data(where: Path) -> None:
    """Other images under the same names."""
    write_data(where, "other")


def restore_data(scene: Path, where: Path) -> None:
    """The images that there were."""
    for name in DATA:
        if (scene / name).is_dir():
            shutil.copytree(scene / name, where / name, dirs_exist_ok=True)
        else:
            shutil.copy2(scene / name, where / name)


def copy_scene(scene: Path, where: Path) -> Path:
    """A fresh copy to attack."""
    if where.exists():
        shutil.rmtree(where)
    return Path(shutil.copytree(scene, where, symlinks=True))


def read_results(where: Path, job: Job) -> dict[str, bytes]:
    """What came out; of links where they lead."""
    found = {name: (where / job.out / name).read_bytes() for name in job.told}
    for link in sorted((where / job.out).rglob("*")) if job.out else ():
        if link.is_symlink():
            found[str(link.relative_to(where))] = str(link.readlink().name).encode()
    return found
