"""Every command and every piece of Python that README and docs show is right: parsed, and run.

A page is followed from top to bottom in a folder with small data, its trainings cut short. What is
not run is named below with the reason; a new command that cannot be run must be added there.
"""

import ast
import io
import json
import re
import shlex
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from sklearn.datasets import load_digits

import drpl
from drpl.__main__ import main
from drpl.cli import app
from drpl.data.sources import ReadOptions, load
from drpl.noise.confusion import Confusion
from tests.conftest import Command
from tests.support.datasets import dump, make_cifar10, make_human, make_idx, make_imagenet
from tests.support.tiny import brief_options, brief_settings

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]
PROGRAMS = ("drpl", "make", "python", "torchrun", "pip", "pipx", "uvx", "tensorboard", "pre-commit")
GROUP: Any = typer.main.get_command(app)

ELSEWHERE = {"docs/tutorial.md": "tests/cleaning/test_tutorial.py"}  # follows it to the letter
NOT_RUN = {
    "drpl review cleaned": "a server; see tests/cleaning/review/",
    "drpl review DIR": "a server; see tests/cleaning/review/",
    "drpl compare digits --methods mixup,drpl -o runs/digits-grid --engine ray": "wants a cluster; "
    "see tests/experiments/test_grid.py",
    "drpl train photos --log tensorboard --log wandb": "an account; see tests/runs/test_loggers.py",
    "tensorboard --logdir runs": "a server of another project",
    "drpl doctor saved-dataset": "wants pyarrow; see tests/data/readers/test_kinds.py",
    "drpl clean scenes.csv -o cleaned-scenes": "wants features; see tests/cleaning/test_tags.py",
    "pre-commit install --hook-type pre-commit --hook-type pre-push": "changes the repository",
}
PYTHON_NOT_RUN = {
    "README.md": "tests/test_docs.py runs it",
    "docs/guide.md": "a sketch; tests/test_examples.py runs the whole of it",
    "docs/comparing.md": "six trainings; tests/experiments/test_grid.py compares",
    "docs/cleaning.md": "ten minutes; tests/cleaning/test_clean.py cleans",
}
ABBREVIATED = {"RUN...": "RUN", "FOLDER": "figures", "DIR": "cleaned", "DATA": "photos"}
RUN = "runs/photos-uniform-0.4/drpl/seed-1"


@dataclass(frozen=True)
class Shown:
    """A command, or a piece of Python, and where it stands."""

    page: str
    line: int
    text: str
    python: bool = False

    @property
    def words(self) -> list[str]:
        """What a shell makes of it: no comment, no variables in front, no folder of programs."""
        words = shlex.split(self.text.removeprefix("$ "), comments=True)
        while "=" in words[0]:
            words = words[1:]
        return [words[0].removeprefix(".venv/bin/"), *words[1:]]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def blocks(page: str) -> Iterator[tuple[int, str, list[str]]]:
    """Code of a page, fenced or indented: first line, language, lines."""
    lines = (ROOT / page).read_text().splitlines()
    at = 0
    while at < len(lines):
        if fence := re.match(r"( *)```(\w*)$", lines[at]):
            end = next(k for k in range(at + 1, len(lines)) if lines[k].strip() == "```")
            yield at + 2, fence[2], [line[len(fence[1]) :] for line in lines[at + 1 : end]]
            at = end + 1
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield at + 1, "", [line[4:] for line in lines[at:end]]
            at = end
        else:
            at += 1


def shown(page: str) -> list[Shown]:
    """Commands and Python of a page in their order."""
    found = []
    for first, language, lines in blocks(page):
        if language == "python":
            found.append(Shown(page, first, "\n".join(lines) + "\n", python=True))
            continue
        start = re.compile(rf"(\w+=\S+ )*(\.venv/bin/|\$ )?({'|'.join(PROGRAMS)}) ")
        if not any(start.match(line) for line in lines):
            continue
        text, number = "", first
        for at, line in enumerate(lines, first):
            number = number if text else at
            text += line.removesuffix("\\")
            if text.strip() and not line.endswith("\\"):
                found.append(Shown(page, number, text))
                text = ""
    return found


EVERYTHING = [one for page in PAGES for one in shown(page)]
COMMANDS = [one for one in EVERYTHING if not one.python]
PYTHON = [one for one in EVERYTHING if one.python]


def spans(page: str) -> Iterator[list[str]]:
    """Pieces of code within sentences."""
    text = re.sub(r"^( *)```.*?^\1```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    for span in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", text):
        yield span.split()


def options(command: Any) -> set[str]:
    return {name for param in command.params for name in param.opts} | {"--help"}


def check_drpl(words: list[str]) -> None:
    """The command exists and takes these words; nothing is executed."""
    name, command, rest = GROUP.resolve_command(typer.Context(GROUP), words)
    command.make_context(name, rest)


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in words if "=" not in word} <= set(targets)


def check_python(words: list[str]) -> None:
    """The script or module is there and knows the options."""
    if words[0] == "-m":
        words = [f"{words[1].replace('.', '/')}.py", *words[2:]]
    script = (ROOT / words[0]).read_text()
    for word in words[1:]:
        assert not word.startswith("--") or f'"{word}"' in script, word


def check_torchrun(words: list[str]) -> None:
    check_drpl(words[words.index("drpl") + 1 :])


def check_pip(words: list[str]) -> None:
    """What is installed is an extra of this project."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert words[0] == "install"
    for word in words[1:]:
        wanted = re.fullmatch(r"drpl\[(.*)]", word)
        assert wanted
        assert set(wanted[1].split(",")) <= set(extras["optional-dependencies"])


def check_runner(words: list[str]) -> None:
    """`pipx run --spec WHAT drpl ...` and `uvx --from WHAT drpl ...`."""
    place = words.index("drpl")
    check_pip(["install", words[place - 1]])
    check_drpl(words[place + 1 :])


CHECKS = {
    "drpl": check_drpl,
    "make": check_make,
    "python": check_python,
    "torchrun": check_torchrun,
    "pip": check_pip,
    "pipx": check_runner,
    "uvx": check_runner,
}


@pytest.mark.parametrize("one", COMMANDS, ids=str)
def test_every_command_is_right(one: Shown) -> None:
    program, *rest = one.words
    if program in CHECKS:
        CHECKS[program](rest)
    else:
        assert shlex.join(one.words) in NOT_RUN, "neither checked nor named as an exception"


def test_exceptions_are_still_shown() -> None:
    """A list that only grows would hide what is no longer there."""
    assert set(NOT_RUN) <= {shlex.join(one.words) for one in COMMANDS}
    assert set(PYTHON_NOT_RUN) <= {one.page for one in PYTHON}
    assert len(COMMANDS) > 60


def test_a_wrong_option_is_found() -> None:
    for line in ("train digits --nose uniform:0.4", "trian digits", "compare digits -o grid"):
        with pytest.raises(Exception, match=r"No such|Missing"):
            check_drpl(line.split())


def test_every_command_that_writes_a_folder_takes_o() -> None:
    """`drpl train photos -o runs/first` was refused, as -o was with `train` and `detect` alone."""
    taken = {name: options(one) for name, one in GROUP.commands.items()}
    writing = {name for name in taken if "--out" in taken[name]}
    assert {"train", "detect", "clean"} <= writing
    assert {name for name in writing if "-o" not in taken[name]} == set()


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_in_sentences(page: str) -> None:
    """`drpl train ... --dry-run` names a command and options that it has."""
    known = set().union(*(options(command) for command in GROUP.commands.values()))
    for words in spans(page):
        if words[0] == "make":
            check_make(words[1:])
        elif words[0].startswith("--"):
            assert words[0].rstrip(",") in known | {"--strict", "--help"}, words
        elif words[:2] == ["drpl", "(literal)"]:  # a row of tables
            continue
        elif "drpl" in words[:-1] and words[0] in ("drpl", "torchrun"):
            name, *rest = words[words.index("drpl") + 1 :]
            command = GROUP if name.startswith("--") else GROUP.commands[name]
            wrong = {word for word in [name, *rest] if word.startswith("-")} - options(command)
            assert not wrong, words


@pytest.mark.parametrize("one", PYTHON, ids=lambda one: f"{one.page}:{one.line}")
def test_python_compiles(one: Shown) -> None:
    """And what it takes from the package is there."""
    for node in ast.walk(ast.parse(one.text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert node.value.id != "drpl" or node.attr in drpl.__all__, node.attr


def short(method: str) -> list[str]:
    """Options that make a training tiny."""
    more = {"min_labelled": 0.5} if method == "drpl" else {}  # one epoch tells little
    return ["--quiet", *brief_options(method, 1, more)]


def briefly(words: list[str]) -> list[str]:
    """The same command with less to do; later options win."""
    name = words[0]
    few = [] if "imagenet32" in words else ["--limit", "60"]  # it has few of a class
    if name == "train":
        method = words[words.index("--method") + 1] if "--method" in words else "drpl"
        return [*words, *few, *short(method)]
    if name == "compare":
        fewer = ["--methods", "cross_entropy", "--seeds", "1", "--jobs", "1", *few]
        return [*words, *fewer, *short("cross_entropy")]
    if name == "confusion":
        return [*words, *few, *short("cross_entropy")]
    if name == "reproduce":  # the grids of the paper are only estimated
        return [*words, "--set", "width=2", *([] if "--dry-run" in words else ["--dry-run"])]
    if name == "study":
        fewer = ["--methods", "cross_entropy", "--jobs", "1", *few]
        return [*words, *fewer, *short("cross_entropy")]
    more = {
        "clean": ["--budget", "1s", "--features", "none", "--quiet"],
        "doctor": ["--no-times"],
    }
    return [*words, *more.get(name, [])]


def as_a_shell(words: list[str]) -> Iterator[str]:
    """Abbreviations and patterns of file names written out."""
    for word in words:
        full = RUN if word.startswith("RUN") else ABBREVIATED.get(word, word)
        yield from sorted(map(str, Path().glob(full))) if "*" in full else [full]


def draw_photos(where: Path) -> None:
    """Digits as files: three classes in two parts, two other classes, and some without a folder."""
    digits = load_digits()

    def save(path: Path, image: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15.9).astype(np.uint8)).save(path)

    for kind in range(5):
        for number, image in enumerate(digits.images[digits.target == kind][:80]):
            part = "train" if number < 70 else "test"
            folder = "photos" if kind < 3 else "other-photos"
            if kind < 3 or number % 3 == 0:
                save(where / folder / part / str(kind) / f"{number}.png", image)
    for name in ("new.jpg", "new/1.jpg", "new/2.jpg", "more/3.png", "more/below/4.png"):
        save(where / name, digits.images[len(name)])
    (where / "list.csv").write_text("path\nnew/1.jpg\n")
    draws = np.random.default_rng(1)
    np.savez(where / "probs.npz", probs=draws.dirichlet(np.ones(3), 60), labels=np.arange(60) % 3)
    np.save(where / "probs.npy", draws.dirichlet(np.ones(10), 90))
    (where / "labels.csv").write_text("\n".join(map(str, ["label", *digits.target[:90]])))


def draw_formats(where: Path) -> None:
    """The same three classes as docs/reading.md has them."""
    photos = sorted((where / "photos" / "train").glob("[01]/?.png"))
    breeds = ("akita", "borzoi")
    rows = [(str(path.relative_to(where)), breeds[int(path.parent.name)]) for path in photos]
    lines = [f"{path},{label}" for path, label in rows]
    (where / "dogs.csv").write_text("\n".join(["image,breed", *lines]))
    said = [json.dumps({"image": path, "label": label}) for path, label in rows]
    (where / "dogs.jsonl").write_text("\n".join(said))
    for path, label in rows:
        for name in (f"animals/dog/{label}", "flat", "image-folder", "VOC2012/JPEGImages", "val"):
            (where / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(where / path, where / name / f"{label}_{Path(path).name}")
    names = [path.name for path in sorted((where / "flat").iterdir())]
    labels = [name.partition("_")[0] for name in names]
    table = "".join(f"{name},{label}\n" for name, label in zip(names, labels, strict=True))
    (where / "image-folder" / "metadata.csv").write_text(f"file_name,label\n{table}")
    (where / "shards").mkdir()
    with tarfile.open(where / "shards" / "train-000.tar", "w") as archive:
        for k, (name, label) in enumerate(zip(names, labels, strict=True)):
            for ending, content in (
                ("png", (where / "flat" / name).read_bytes()),
                ("cls", label.encode()),
            ):
                about = tarfile.TarInfo(f"{k:04}.{ending}")
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
    boxes = [
        {"id": k, "image_id": k, "category_id": breeds.index(label), "bbox": [0, 0, 6, 6]}
        for k, label in enumerate(labels)
    ]
    coco = {
        "images": [{"id": k, "file_name": name} for k, name in enumerate(names)],
        "annotations": boxes,
        "categories": [{"id": k, "name": name} for k, name in enumerate(breeds)],
    }
    (where / "annotations").mkdir()
    (where / "annotations" / "instances_val.json").write_text(json.dumps(coco))
    (where / "VOC2012" / "Annotations").mkdir()
    for name, label in zip(names, labels, strict=True):
        sides = "<xmin>1</xmin><ymin>1</ymin><xmax>6</xmax><ymax>6</ymax>"
        (where / "VOC2012" / "Annotations" / f"{Path(name).stem}.xml").write_text(
            f"<annotation><filename>{name}</filename><object><name>{label}</name>"
            f"<bndbox>{sides}</bndbox></object></annotation>"
        )


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, two runs on them with wrong labels, and a cleaned folder."""
    where = tmp_path_factory.mktemp("workplace")
    draw_photos(where)
    draw_formats(where)
    Image.new("RGB", (90, 60), "teal").save(where / "photo.jpg")
    public = where / "data"
    make_cifar10(public / "cifar-10-batches-py", each=20)
    names = [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ]
    dump(public / "cifar-10-batches-py" / "batches.meta", {"label_names": names})
    true = [(k + n) % 10 for n in range(1, 6) for k in range(20)]  # as that writes them
    worse = [(label + (k % 3 == 0)) % 10 for k, label in enumerate(true)]
    make_human(public / "CIFAR-10_human.pt", clean_label=true, worse_label=worse)
    make_idx(public / "fashion-mnist", count=60)
    make_imagenet(public / "imagenet32", list(range(1, 1001)), side=32, batches=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        for method in ("drpl", "mixup"):
            settings = brief_settings(method)
            more: dict[str, Any] = {"noise": "uniform:0.4", "method": method, "track_every": 1}
            drpl.train("photos", settings=settings, quiet=True, **more)
        mini = where / "runs/mini/fashion-mnist/runs/nonuniform-0.4"  # as `make mini` has them
        for method, run in (("cross_entropy", "mixup"), ("drpl", "drpl")):
            source = where / f"runs/photos-uniform-0.4/{run}/seed-1"
            shutil.copytree(source, mini / method / "seed-1")
        classes = load("fashion-mnist", ReadOptions(data_dir=public)).train.classes
        Confusion(torch.full((10, 10), 0.1), classes).write(where / "alike.npz")
        patch.setattr(sys, "argv", ["drpl", *briefly(["clean", "photos", "-o", "cleaned"])])
        with pytest.raises(SystemExit, check=lambda left: not left.code):
            main()  # pages that show it find it finished
    return where


def known_names() -> dict[str, Any]:
    """What the pages' Python takes for granted."""
    digits = load_digits()
    x, y = digits.data[:90].astype(np.float32), digits.target[:90]
    loop = {
        "network": torch.nn.Linear(64, 10),
        "loader": [(torch.tensor(x), torch.tensor(y), torch.arange(90))],
    }
    return {"drpl": drpl, "runs": [RUN], "embeddings": x, "labels": y, "new": x[:5], **loop}


def steps_of(page: str) -> list[Shown]:
    """What a reader of the page runs, but for what is not for a test."""
    steps = [one for one in shown(page) if one.python or one.words[0] == "drpl"]
    steps = [one for one in steps if one.python or shlex.join(one.words) not in NOT_RUN]
    return [one for one in steps if not (one.python and page in PYTHON_NOT_RUN)]


FOLLOWED = sorted(
    page for page in {one.page for one in EVERYTHING} - set(ELSEWHERE) if steps_of(page)
)
LONG = (
    "docs/cookbook.md",
    "docs/figures.md",
    "docs/comparing.md",
    "docs/encoders.md",
)  # half a minute and more, for make slow


def slowly(page: str) -> object:
    """A page to follow, marked if it takes long."""
    return pytest.param(page, marks=pytest.mark.slow) if page in LONG else page


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("page", [slowly(page) for page in FOLLOWED])
def test_pages_followed_to_the_letter(
    page: str, workplace: Path, tmp_path: Path, command: Command
) -> None:
    """Each command succeeds and leaves what it was asked to write."""
    shutil.copytree(workplace, tmp_path, dirs_exist_ok=True)
    names = known_names()
    for one in steps_of(page):
        if one.python:
            exec(compile(one.text, page, "exec"), names)
            continue
        words = list(as_a_shell(one.words[1:]))
        answer = command(*(brief := briefly(words)))
        assert answer.code == 0, f"{one}\n{answer.err}"
        if "-o" in words and "--dry-run" not in brief:
            assert Path(words[words.index("-o") + 1]).exists(), one
