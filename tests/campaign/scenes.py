"""What is attacked: small data sets, and what the commands make of them."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tests.campaign.running import run
from tests.support.tiny import brief_options, tiny_pixels

BRIEF = (*brief_options("drpl", 2, {"network": "mlp", "width": 8}), "--quiet")
TRAIN = ("train", "photos", "--noise", "uniform:0.2", "--out", "trained", *BRIEF)
OFTEN = ("--save-every", "0")
# No time at all: the quickest settings, and the same ones on every machine.
SHORT = ("--budget", "0s", "--features", "none", "--repeats", "1", "--quiet")


@dataclass(frozen=True)
class Job:
    """A command that writes, and which of its files say what came out."""

    words: tuple[str, ...]
    out: str
    told: tuple[str, ...]


JOBS = {
    "train": Job(
        ("train", "tiny.npz", "--noise", "uniform:0.3", "--out", "run", *OFTEN, *BRIEF),
        "run",
        ("samples.csv", "model.safetensors", "config.toml"),
    ),
    "detect": Job(
        ("detect", "photos", "--method", "mixup", "--out", "found", *OFTEN, "--quiet",
         *brief_options("mixup", 2, {"network": "mlp", "width": 8})),
        "found",
        ("samples.csv", "config.toml"),
    ),
    "clean": Job(
        ("clean", "tiny.npz", "-o", "new", *SHORT),
        "new",
        ("issues.csv", "samples.csv", "clean.json", "data.json"),
    ),
    "noise": Job(
        ("noise", "photos", "--noise", "uniform:0.3", "-o", "noisy"),
        "noisy",
        ("labels.csv", "manifest.json"),
    ),
    "apply": Job(
        ("apply", "cleaned", "-o", "better", "--accept-above", "0.5"),
        "better",
        ("labels.csv", "audit.csv", "dropped.csv", "applied.json"),
    ),
    "links": Job(
        ("apply", "cleaned", "-o", "linked", "--accept-above", "0.5", "--links"),
        "linked",
        ("audit.csv", "applied.json"),
    ),
    "report": Job(("report", "trained", "-o", "page.html"), "", ("page.html",)),
    "predict": Job(("predict", "trained", "photos", "-o", "named.csv", "-q"), "", ("named.csv",)),
    "score": Job(("score", "trained", "-o", "scores.csv"), "", ("scores.csv",)),
}  # fmt: skip


def build_scene(where: Path) -> Path:
    """Data of several kinds, a finished run and a cleaned folder."""
    where.mkdir(parents=True)
    pixels, labels = tiny_pixels(48, "train")
    test, test_labels = tiny_pixels(12, "test")
    given = labels.clone()
    given[::6] = (given[::6] + 1) % 3
    names = ("top", "left", "middle")
    np.savez(where / "tiny.npz", x=pixels.numpy(), y=given.numpy(), x_test=test.numpy(),
             y_test=test_labels.numpy(), classes=names)  # fmt: skip
    rows = ["path,label"]
    for k, (image, label) in enumerate(zip(pixels, given.tolist(), strict=True)):
        path = where / "photos" / names[label] / f"{k}.{('png', 'bmp', 'jpg')[k % 3]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(path)
        rows.append(f"{path.relative_to(where)},{names[label]}")
    (where / "list.csv").write_text("\n".join(rows) + "\n")
    for words in (TRAIN, ("clean", "photos", "-o", "cleaned", *SHORT)):
        ended = run(words, where)
        if ended.code:
            raise RuntimeError(f"{' '.join(words)}: {ended.err}")
    issues = (where / "cleaned" / "issues.csv").read_text().splitlines()[1:3]
    log = ["time,who,id,action,label,why"]
    log += [
        f"2026-01-02T03:04:05Z,Ann,{row.split(',')[0]},keep,{row.split(',')[2]}," for row in issues
    ]
    (where / "cleaned" / "decisions.csv").write_text("\n".join(log) + "\n")  # fmt: skip
    shutil.rmtree(where / ".drpl-cache", ignore_errors=True)
    return where


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
