import csv
import functools
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from drpl import __version__
from drpl.__main__ import main
from drpl.cli.app import join_names, split_names
from tests.conftest import Command
from tests.support.datasets import make_cifar10
from tests.support.tiny import brief_options

pytestmark = pytest.mark.usefixtures("undrawn")

FAST = brief_options("drpl")
Mistake = Callable[..., str]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twenty-four small pictures in three folders."""
    draws = np.random.default_rng(1)
    for c, name in enumerate(("ash", "birch", "cedar tree")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(8):
            pixels = draws.integers(0, 60, (9, 9, 3), dtype=np.uint8)
            pixels[:, :, c] += 150
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{k}.png")
    return tmp_path / "photos"


def test_train_predict_report(command: Command, photos: Path) -> None:
    answer = command("train", photos, "--noise", "uniform:0.25", "--out", "run", *FAST)
    assert answer.code == 0
    assert "flagged" in answer.out
    assert "auroc" in answer.out
    assert "relabel: epoch 1 of 1" in answer.err  # plain lines where there is no terminal
    for name in (
        "config.toml",
        "provenance.json",
        "history.jsonl",
        "noise.json",
        "samples.csv",
        "samples.npz",
        "gallery.npz",
        "model.safetensors",
        "model.json",
        "result.json",
        "stages/relabel.pt",
        "evidence/relabel.npz",
    ):
        assert (Path("run") / name).is_file(), name
    rows = list(csv.DictReader(io.StringIO(Path("run/samples.csv").read_text())))
    assert list(rows[0]) == [
        *("id", "path", "given_label", "suggested_label"),
        *("confidence", "loss", "p_noisy", "flagged"),
    ]
    assert len(rows) == 24
    assert rows[-1]["path"] == "cedar tree/7.png"
    assert {row["given_label"] for row in rows} == {"ash", "birch", "cedar tree"}

    first = photos / "ash" / "0.png"
    answer = command("predict", "run", first, photos / "cedar tree" / "1.png")
    guesses = list(csv.DictReader(io.StringIO(answer.out)))
    assert guesses[0]["path"] == str(first)
    shares = [float(guesses[0][f"p_{name}"]) for name in ("ash", "birch", "cedar tree")]
    assert sum(shares) == pytest.approx(1, abs=1e-4)
    assert guesses[0]["class"] in ("ash", "birch", "cedar tree")
    assert command("predict", "run", first, "-o", "out.csv").out == ""
    assert Path("out.csv").read_text().startswith("path,class,confidence")

    assert command("report", "run", "-o", "page.html").code == 0
    page = Path("page.html").read_text()
    assert "Most suspicious labels" in page
    # Training, ROC and five of the run; no test accuracy without a test set.
    assert page.count("<svg") == 7
    assert page.count("<img") > 10


def test_a_finished_run_is_not_trained_again(command: Command, photos: Path) -> None:
    words = ("detect", photos, "--out", "run", *FAST)
    command(*words)
    before = Path("run/history.jsonl").read_text()
    again = command(*words)
    assert again.code == 0
    assert "epoch" not in again.err
    assert Path("run/history.jsonl").read_text() == before


def test_a_dry_run_reckons_and_writes_nothing(command: Command, photos: Path) -> None:
    answer = command("train", photos, "--dry-run", "--preset", "cifar10", "--set", "width=4")
    assert answer.code == 0
    lines = answer.out.splitlines()
    stages = ["relabel", "detect-warmup", "detect", "final-warmup", "final"]
    assert [line.split()[0] for line in lines[1:6]] == stages
    assert [int(line.split()[1]) for line in lines[1:7]] == [130, 10, 175, 10, 300, 625]
    assert "GiB" in answer.out
    assert not Path("runs").exists()


def test_list_and_help(command: Command) -> None:
    everything = command("list").out
    for name in (
        "drpl",
        "cross_entropy",
        "digits",
        "FOLDER",
        "uniform",
        "mlp",
        "cifar10",
        "released",
    ):
        assert name in everything
    assert "uniform" not in command("list", "methods").out
    assert command("--version").out.strip() == __version__
    assert "train" in command("--help").out


@pytest.mark.parametrize(
    ("words", "told", "untold"),
    [
        (["clean"], "Time for everything: 10m", "Time to train"),
        (["clean"], "suggest right ones, and train a robust model", "knows better"),
        (["clean"], "--classes", "--skip-broken"),  # it always skips
        (["doctor"], "Compare the images by vectors", "--skip-broken"),
        (["doctor"], """cat,dog; quotes are for a comma in a name: '"a, b",cat'.""", "cat,dog."),
        (["noise"], "Use vectors that", "Train on vectors"),
        (["train"], "--skip-broken", "Train on vectors"),
        (["probe"], "separate classes", "apart"),
        (["apply"], "both its probability (confidence in issues.csv) and the", "is sure"),
    ],
)
def test_help_says_what_is_so(command: Command, words: list[str], told: str, untold: str) -> None:
    text = " ".join(command(*words, "--help").out.split())
    assert told in text
    assert untold not in text


def test_broken_files_are_skipped_by_clean_in_any_case(mistake: Mistake) -> None:
    """An option that older scripts may have."""
    for words in (("clean", "no/where", "-o", "x"), ("doctor", "no/where")):
        assert "there is no file or folder no/where" in mistake(*words, "--skip-broken")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1))
def test_names_are_what_they_were_before_they_were_joined(names: list[str]) -> None:
    assert split_names([join_names(names)]) == names


def test_names_with_commas(mistake: Mistake) -> None:
    assert split_names(None) == []
    assert split_names(["a,b", "", '"c, d", e', 'f "g"']) == ["a", "b", "", "c, d", " e", 'f "g"']
    told = (
        'cannot tell the names in "1,2: put a name with a comma or quotes into quotes, and double'
    )
    assert told in mistake("doctor", "digits", "--classes", '"1,2')


@pytest.mark.parametrize("words", [["--help"], ["list"], ["train", "--help"]])
def test_help_and_list_are_light(words: list[str]) -> None:
    """No torch, pandas or matplotlib for a question that needs none of them."""
    script = (
        "import sys; sys.argv = ['drpl', *sys.argv[1:]]\n"
        "from drpl.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'pandas', 'matplotlib', 'scipy', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_named_set_from_its_folder(command: Command, tmp_path: Path) -> None:
    make_cifar10(tmp_path / "sets" / "cifar-10-batches-py", batches=2)
    words = ("detect", "cifar10", "--method", "cross_entropy", "--out", "run")
    where = ("--data-dir", "sets", "--outside", "class 3", "--outside", "class 5")
    answer = command(*words, *where, *brief_options("cross_entropy"))
    assert answer.code == 0, answer.err
    assert "note: cifar-10-batches-py has batch 1, 2 of 5" in answer.err
    assert "of 32 labels" in answer.out


def test_a_named_set_that_is_not_there(mistake: Mistake) -> None:
    assert "wants cifar-10-batches-py/data_batch_*" in mistake("train", "cifar10")
    assert "no class is named '11'" in mistake("train", "digits", "--outside", "11")


def test_missing_folder(mistake: Mistake) -> None:
    assert "there is no file or folder no/where" in mistake("train", "no/where")
    assert "did you mean 'digits'" in mistake("train", "digit")


def test_one_class(mistake: Mistake, photos: Path) -> None:
    for name in ("birch", "cedar tree"):
        (photos / name).rename(photos.parent / name)
    assert "one class only ('ash')" in mistake("train", photos)
    flat = mistake("train", photos / "ash")
    assert "has no sub-folders; put the images of each class into one of its own, or find " in flat
    assert "has no sub-folders at depth 3; try a smaller one" in mistake(
        "train", photos, "--depth", "3"
    )


def test_empty_class(mistake: Mistake, photos: Path) -> None:
    (photos / "dogwood").mkdir()
    told = f"there are no images in {photos / 'dogwood'}; add some, remove the folder, or read the "
    told += "other classes only (--classes)\n"
    for words in (("train",), ("clean", "-o", "out")):
        assert told in mistake(*words, photos)
    assert not Path("runs").exists()


def test_folders_without_images(mistake: Mistake) -> None:
    Path("empty/a").mkdir(parents=True)
    assert "has no images" in mistake("train", "empty")


def test_a_text_file_named_jpg(mistake: Mistake, photos: Path) -> None:
    (photos / "ash" / "note.jpg").write_text("not a picture")
    sentence = mistake("train", photos)
    assert "note.jpg" in sentence
    assert "not an image" in sentence
    assert not Path("runs").exists()


def test_a_truncated_jpeg(mistake: Mistake, photos: Path) -> None:
    whole = photos / "ash" / "big.jpg"
    Image.fromarray(np.random.default_rng(2).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(
        whole
    )
    whole.write_bytes(whole.read_bytes()[:900])
    sentence = mistake("train", photos)
    assert "big.jpg" in sentence
    assert "truncated" in sentence
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--noise", "uniform:40"], "did you mean 0.4?"),
        (["--method", "drlp"], "unknown method 'drlp'; did you mean 'drpl'?"),
        (["--set", "relabel.widow=3"], "did you mean 'window'?"),
        (["--preset", "cifar"], "did you mean 'cifar10'?"),
        (["--device", "cuda"], "device 'cuda' cannot be used"),
        (["--device", "warp"], "device 'warp' cannot be used"),
        (["--set", "network=preact_resnet81"], "did you mean 'preact_resnet18'?"),
        (["--set", "network=inception_resnet_v2", *FAST], "at least 75 pixels a side, got 8 x 8"),
        (["--set", "network=custom", *FAST], "a function of your own"),
        (["--set", "crop=1.5"], "crop must be less than or equal to 1"),
    ],
)
def test_wrong_words(mistake: Mistake, words: list[str], sentence: str) -> None:
    assert sentence in mistake("train", "digits", *words)


def test_a_preset_with_a_wrong_type(mistake: Mistake) -> None:
    Path("mine.toml").write_text('width = "wide"')
    assert "mine.toml: width must be a valid integer" in mistake(
        "train", "digits", "--preset", "mine.toml"
    )
    assert not Path("runs").exists()


def test_a_folder_of_another_run(command: Command, mistake: Mistake, photos: Path) -> None:
    words = ("detect", photos, "--out", "run", *FAST)
    command(*words)
    assert "was made with seed 1, but 2 was asked for" in mistake(*words, "--seed", 2)
    assert "was made with method drpl, but mixup" in mistake(
        "train", photos, "--out", "run", "--method", "mixup"
    )
    other = mistake(*words, "--set", "relabel.window=3")
    assert "relabel.window 10, but 3" in other
    assert "preset small, but digits" in mistake(*words, "--preset", "digits")


def test_damaged_run_folders(command: Command, mistake: Mistake, photos: Path) -> None:
    words = ("train", photos, "--out", "run", *FAST)
    command(*words)
    stage = Path("run/stages/relabel.pt")
    data = bytearray(stage.read_bytes())
    data[len(data) // 2] ^= 1
    stage.write_bytes(bytes(data))
    Path("run/result.json").unlink()
    assert "relabel.pt is damaged" in mistake(*words)
    stage.unlink()
    assert command(*words).code == 0
    evidence = Path("run/evidence/relabel.npz")
    evidence.write_bytes(evidence.read_bytes()[:100])
    Path("run/result.json").unlink()
    assert "relabel.npz is damaged" in mistake(*words)


def test_models_that_cannot_be_used(command: Command, mistake: Mistake, photos: Path) -> None:
    image = photos / "ash" / "0.png"
    assert "there is no nowhere" in mistake("predict", "nowhere", image)
    command("detect", photos, "--out", "run", *FAST)
    command("detect", photos, "--out", "other", *FAST, "--set", "width=6")
    weights = Path("run/model.safetensors")
    weights.write_bytes(Path("other/model.safetensors").read_bytes())
    assert "belong to another network" in mistake("predict", "run", image)
    weights.write_bytes(b"x" * 100)
    assert "damaged" in mistake("predict", "run", image)
    weights.unlink()
    assert "there is no run/model.safetensors" in mistake("predict", "run", image)
    Path("run/model.json").write_text("{}")
    assert "damaged: network: field required" in mistake("predict", "run", image)
    Path("run/model.json").write_text("{")
    assert "damaged" in mistake("predict", "run", image)
    assert "not the folder of a finished run: it has no model.json" in mistake(
        "predict", image, image
    )
    assert "there is no image file" in mistake("predict", "other", "no.png")
    assert "a file that ends with .html" in mistake("report", "other", "-o", "other/samples.csv")
    assert "not the folder of a run" in mistake("report", "nowhere")
    Path("other/result.json").unlink()
    assert "is not finished" in mistake("score", "other")


def test_labels_and_values_out_of_range(mistake: Mistake) -> None:
    x = np.zeros((4, 8, 8), np.uint8)
    np.savez("labels.npz", x=x, y=[0, 1, 2, 9], classes=["a", "b", "c"])
    assert "label 9 of image 3 is outside 0..2" in mistake("train", "labels.npz")
    np.savez("nan.npz", x=np.full((4, 5), np.nan), y=[0, 1, 0, 1])
    assert "NaN" in mistake("train", "nan.npz")


def test_a_full_disk(mistake: Mistake, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in mistake("train", photos, "--out", "run", *FAST)
    assert [path for path in Path("run").rglob("*") if path.is_file()] == []


def test_ctrl_c_says_how_to_go_on(photos: Path, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "drpl",
        "train",
        str(photos),
        "--out",
        "run",
        "--save-every",
        "0",
    ]
    words += [*FAST, "--set", "relabel_schedule.epochs=3000"]
    # A background job starts with Ctrl-C ignored; a person at a terminal has it.
    listening = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    running = subprocess.Popen(
        words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=listening
    )
    diary = tmp_path / "run" / "history.jsonl"
    for _ in range(600):
        if diary.exists() and len(diary.read_text().splitlines()) > 2:
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "go on with:\n  drpl train" in err
    assert "Traceback" not in err
    assert (tmp_path / "run" / "stages" / "relabel.pt").exists()


def test_ctrl_c_before_a_command_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("drpl.cli.app", stop)
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 130
    assert capsys.readouterr().err == "\nStopped.\n"
