"""From a folder with wrong labels to a list of them, as a person would do it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.metrics import roc_auc_score

from drpl.cleaning import clean as cleaning
from drpl.cleaning.claim import PLAN, describe_data
from drpl.cleaning.clean import clean
from drpl.cleaning.folder import ISSUES, CleanedFolder
from drpl.cleaning.plan import Choice, Doubts, Forecast, list_choices, scale_epochs
from drpl.cleaning.progress import BUDGET, Overall
from drpl.cleaning.review.decision_log import DecisionLog, make_decision, read_decisions
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions, load
from drpl.errors import DrplError
from tests.conftest import Command
from tests.support.messy import NAMES, Messy

pytestmark = pytest.mark.usefixtures("undrawn")

OUT = "cleaned data"


def figures_of(folder: Path, messy: Messy) -> dict[str, float]:
    """How good the list is."""
    samples = pd.read_csv(folder / "samples.csv", keep_default_na=False)
    issues = pd.read_csv(folder / "issues.csv", keep_default_na=False)
    wrong = samples.path.map(messy.wrong)
    listed, shown = issues.path.map(messy.wrong), issues.path.map(messy.truth)
    flipped = issues[listed & (shown >= 0)]
    right = flipped.suggested_label.map(NAMES.index) == flipped.path.map(messy.truth)
    rate = json.loads((folder / "clean.json").read_text())["noise rate"]
    return {
        "auroc": float(roc_auc_score(wrong, samples.p_noisy)),
        "precision": float(listed.mean()),
        "recall": float(listed.sum() / wrong.sum()),
        "suggested": float(right.mean()),
        "verdict": float(roc_auc_score(shown[listed] < 0, issues.outlier_score[listed])),
        "covered": float(rate["low"] <= wrong.mean() <= rate["high"]),
    }


def check(found: dict[str, float]) -> None:
    least = {"auroc": 0.97, "precision": 0.9, "suggested": 0.9, "verdict": 0.85, "covered": 1}
    assert {name: found[name] for name in least if found[name] < least[name]} == {}
    assert found["recall"] > 0.7


def test_the_noise_is_found(cleaned: Path, messy: Messy) -> None:
    check(figures_of(cleaned, messy))


@pytest.mark.slow
def test_the_noise_is_found_by_the_command_as_it_is(messy: Messy, command: Command) -> None:
    answer = command("clean", messy.folder, "-o", OUT, "--quiet")
    assert answer.code == 0, answer.err
    check(found := figures_of(Path(OUT), messy))
    print(found)


def test_what_is_in_the_folder(cleaned: Path, messy: Messy) -> None:
    issues = pd.read_csv(cleaned / "issues.csv", keep_default_na=False)
    assert len(issues) > 20
    assert issues.p_noisy.is_monotonic_decreasing
    assert (issues.given_label != issues.suggested_label).all()
    assert set(issues.verdict) <= {"mislabelled", "outside", "ambiguous"}
    samples = pd.read_csv(cleaned / "samples.csv", keep_default_na=False)
    assert len(samples) == len(messy.truth)  # all but the torn file
    for row in issues.head(20).itertuples():
        for kind in ("given", "suggested"):
            ids, label = getattr(row, f"near_{kind}"), getattr(row, f"{kind}_label")
            near = samples.loc[[int(number) for number in ids.split()]]
            assert (near.given_label == label).all()
    matrix = pd.read_csv(cleaned / "noise-matrix.csv", index_col="true")
    assert list(matrix.columns) == sorted(NAMES) == list(matrix.index)
    assert np.allclose(matrix.sum(axis=1), 1, atol=1e-4)
    assert (np.diag(matrix) > 0.5).all()
    text = (cleaned / "summary.md").read_text()
    assert "torn.jpg" in text
    assert f"{len(issues):,}" in text
    assert "drpl review" in text
    assert CleanedFolder.load(cleaned).root == messy.folder.resolve()
    assert (cleaned / "noise-matrix.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (cleaned / "report.html").read_text()


def test_a_corrected_folder_closes_the_loop(
    cleaned: Path, messy: Messy, tmp_path: Path, command: Command
) -> None:
    before = hashes(messy.folder)
    answer = command("apply", cleaned, "--accept-above", 0.5, "-o", tmp_path / "better")
    assert answer.code == 0, answer.err
    corrected = pd.read_csv(tmp_path / "better" / "labels.csv")
    names = ["/".join(Path(path).parts[-2:]) for path in corrected.path]
    shown = np.array([messy.truth[name] for name in names])
    wrong = (corrected.label.map(NAMES.index) != shown).mean()
    assert wrong < 0.25  # it was 0.4; a person has not looked yet
    assert hashes(messy.folder) == before
    short = ["--set", "schedule.epochs=1", "--set", "width=4", "--size", "8", "--skip-broken"]
    train = ["train", tmp_path / "better" / "labels.csv", "--method", "cross_entropy", "--quiet"]
    assert command(*train, *short, "--out", tmp_path / "again").code == 0


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def blobs(
    case: int, samples: int = 1500, features: int = 20
) -> tuple[DatasetSplits, NDArray[np.int64], NDArray[np.int64]]:
    """Vectors around as many centres as classes, some labels wrong; odd cases are imbalanced."""
    draws = np.random.default_rng(1000 + case)
    classes = (4, 6, 8, 10)[case % 4]
    rate = 0.05 + 0.55 * case / 19
    weights = np.geomspace(1, 0.2 if case % 2 else 1, classes)
    true = draws.choice(classes, samples, p=weights / weights.sum())
    x = draws.normal(size=(classes, features))[true] + 0.9 * draws.normal(size=(samples, features))
    moved = draws.integers(1, classes, samples) * (draws.random(samples) < rate)
    given = (true + moved) % classes
    names = [f"class {k}" for k in range(classes)]
    return arrays(x.astype(np.float32), given, classes=names), true, given


def plan_quickest(data: DatasetSplits, out: Path) -> None:
    """Choose the settings that take the least time."""
    *_, quickest = list_choices(data)
    quickest.save(out / PLAN)


@pytest.mark.parametrize(
    ("cases", "least"),
    [(range(0, 20, 5), 3), pytest.param(range(20), 17, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_the_interval_contains_the_noise_rate(
    cases: range, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates from 5 to 60 %, balanced and not; only the slow test trains as long as is best."""
    monkeypatch.setattr("drpl.cleaning.clean.write_report", lambda *_, **__: None)  # takes its time
    hits, widths = 0, []
    for case in cases:
        data, true, given = blobs(case)
        if len(cases) < 20:
            plan_quickest(data, tmp_path / str(case))
        found = clean(data, tmp_path / str(case), budget="1h", quiet=True)
        rate, real = found.rate, (true != given).mean()
        hits += rate.low <= real <= rate.high
        widths.append(rate.high - rate.low)
        shutil.rmtree(tmp_path / str(case))
    assert hits >= least
    assert max(widths) < 0.15  # it says something, too


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs a stage, and no report: what comes out is complete, but not good."""

    def choose(data: DatasetSplits, *_: object) -> tuple[Choice, Forecast]:
        preset = "small" if len(data.train.images.shape) == 3 else "vectors"
        return scale_epochs(Choice(data, preset, {"pool": True, "width": 4}), 0.01, 64), [
            {"relabel": 9.0}
        ]

    monkeypatch.setattr("drpl.cleaning.clean.fit_budget", choose)
    monkeypatch.setattr("drpl.cleaning.clean.write_report", lambda *_, **__: None)


def quick(data: DatasetSplits | str, out: Path, **more: object) -> dict[str, bytes]:
    """Clean, and the bytes of what came out; files that hold a duration are left out."""
    clean(data, out, budget="1h", quiet=True, **more)  # type: ignore[arg-type]
    timed = ("history.jsonl", "result.json", "provenance.json", "report.html", "summary.md")
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in timed and path.suffix != ".pt"
    }


@pytest.mark.usefixtures("short")
def test_the_same_data_give_the_same_bytes(tmp_path: Path) -> None:
    data, _, _ = blobs(7, 400)
    first, second = (quick(data, tmp_path / name) for name in ("a", "b"))
    assert {"issues.csv", "model.safetensors", "noise-matrix.csv", "clean.json"} <= first.keys()
    assert first == second
    assert quick(data, tmp_path / "c", seed=2)["issues.csv"] != first["issues.csv"]


@pytest.fixture
def photos(tmp_path: Path, tiny: DatasetSplits) -> Path:
    """The tiny problem as files, some in wrong folders."""
    pixels = tiny.train.images.load(torch.arange(len(tiny.train)))
    for i, (image, label) in enumerate(zip(pixels, tiny.train.labels.tolist(), strict=True)):
        path = tmp_path / "photos" / "abc"[(label + (i % 9 == 0)) % 3] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).resize((16, 16)).save(path)
    return tmp_path / "photos"


@pytest.mark.usefixtures("short")
def test_a_folder_belongs_to_its_data(
    photos: Path, mistake: Callable[..., str], command: Command
) -> None:
    """`drpl clean NEW -o OLD` used to answer with what was found in the old data."""
    words = ("clean", photos, "-o", OUT, "--features", "none")
    assert command(*words, "--quiet").code == 0
    before = hashes(Path(OUT))
    assert command(*words, "--quiet").code == 0
    assert "was made with size None, but 8" in mistake(*words, "--size", 8)
    assert "with features none, but lite0" in mistake(*words[:-1], "lite0")
    (photos / "a" / "3.png").rename(photos / "b" / "3.png")
    assert "was made of other training images" in mistake(*words)
    shutil.rmtree(photos / "c")
    assert "was made of other training images" in mistake(*words)
    assert hashes(Path(OUT)) == before
    plan = json.loads((Path(OUT) / PLAN).read_text())
    old = {name: value for name, value in plan.items() if name not in ("data", "seal")}
    (Path(OUT) / PLAN).write_text(json.dumps(old))
    answer = command(*words)
    assert answer.code == 0
    assert "whether these are the same is not known" in answer.err


@pytest.mark.parametrize("words", [("clean",), ("train", "--preset", "small")])
def test_nothing_is_written_among_images(
    words: tuple[str, ...], photos: Path, mistake: Callable[..., str], tiny_file: Path
) -> None:
    """`drpl clean digits -o photos` made folders beside the classes, which were classes then."""
    before = hashes(photos)
    for folder in (photos, photos / "a"):
        told = mistake(words[0], tiny_file, "-o", folder, *words[1:])
        assert f"{folder} holds images, such as {folder}" in told
        assert "choose another folder" in told
    assert hashes(photos) == before


def test_a_model_of_a_cleaned_folder_can_be_looked_into(
    photos: Path, command: Command, mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`look` took the answer of all networks for the model's, and read the images at its size."""

    def choose(data: DatasetSplits, *_: object) -> tuple[Choice, Forecast]:
        smaller = Choice(data.resize(8), "small", {"pool": True, "width": 4})
        return scale_epochs(smaller, 0.05, 16), [{"relabel": 9.0}]

    monkeypatch.setattr("drpl.cleaning.clean.fit_budget", choose)
    monkeypatch.setattr("drpl.cleaning.clean.write_report", lambda *_, **__: None)
    assert command("clean", photos, "-o", OUT, "--features", "none", "--quiet").code == 0
    answer = command("look", OUT, "-o", "seen")
    assert answer.code == 0, answer.err
    assert answer.out.count("image ") == 6
    for path in photos.rglob("*.png"):
        Image.fromarray(255 - np.array(Image.open(path))).save(path)
    assert "not the images that the run" in mistake("look", OUT, "-o", "seen")


@pytest.mark.usefixtures("short")
def test_a_folder_need_not_be_named(photos: Path, command: Command) -> None:
    """It is `cleaned`, and belongs to its data like any other."""
    answer = command("clean", photos, "--features", "none", "--quiet")
    assert answer.code == 0, answer.err
    assert (Path("cleaned") / "issues.csv").exists()
    (photos / "a" / "3.png").rename(photos / "b" / "3.png")
    assert "cleaned was made of other" in command("clean", photos, "--features", "none").err


def write_finished(photos: Path, folder: Path, budget: str | None = None) -> None:
    """A folder as if `drpl clean` had found nothing in the photos' pixels."""
    about = describe_data(str(photos), "none", ReadOptions())
    next(list_choices(load(str(photos)))).save(folder / PLAN, about, (), budget)
    counts = {"seed": 1, "repeats": 1, "samples": 72, "issues": 0, "verdicts": {}}
    lists: dict[str, object] = {"classes": [], "pairs": [], "notes": []}
    rate = {"noise rate": {"value": 0, "low": 0, "high": 1}}
    (folder / "clean.json").write_text(json.dumps(counts | lists | rate))
    (folder / "summary.md").write_text("# What was found\n")
    (folder / "issues.csv").write_text(f"{','.join(ISSUES)}\n")


def test_another_budget_for_the_same_folder_is_not_passed_over(
    photos: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_finished(photos, Path("out"), "1m")
    words = ("clean", photos, "-o", "out", "--features", "none", "--budget")
    told = "note: out was finished with a budget of 1m, and this is what was found then; for a "
    told += "budget of 5m name a new folder (-o)\n"
    other = command(*words, "5m")
    assert (other.code, other.err.count(told)) == (0, 1)
    assert "budget" not in command(*words, "60s").err
    assert "a budget of" not in command(*words[:-1]).err  # none is asked for
    times = stop_before_training(monkeypatch)
    (Path("out") / "clean.json").unlink()
    stopped = command(*words, "5m").err
    assert "out was planned with a budget of 1m, and goes on with that plan; for a bud" in stopped
    assert "a budget of" not in command(*words[:-1]).err
    assert times == [300, 60]
    write_finished(photos, Path("out"))  # by a version that did not keep the budget
    assert "budget" not in command(*words, "5m").err


def stop_before_training(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make `clean` stop as if by Ctrl-C once it is planned; the seconds that each call had."""
    times: list[float] = []

    def stop(choice: Choice, folder: Path, asked: object, display: Overall) -> None:
        times.append(display.budget)
        raise KeyboardInterrupt

    monkeypatch.setattr(cleaning, "_train", stop)
    return times


@pytest.mark.usefixtures("short")
def test_ten_minutes_are_planned_where_nobody_says_how_many(
    photos: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = stop_before_training(monkeypatch)
    words = ("clean", photos, "-o", "out", "--features", "none")
    assert command(*words).code == 130
    assert json.loads((Path("out") / PLAN).read_text())["budget"] == BUDGET == "10m"
    assert "goes on with that plan" not in command(*words, "--budget", "600s").err
    with pytest.raises(KeyboardInterrupt):
        clean(str(photos), "out", features="none", quiet=True)
    assert times == [600, 600, 600]
    assert f"[default: {BUDGET}]." in " ".join(command("clean", "--help").out.split())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("clean.json", {"seed": "one"}),
        ("clean.json", {"noise rate": {"value": float("nan"), "low": 0, "high": 1}}),
        ("clean.json", {"noise rate": 3}),
        ("clean.json", {"verdicts": {"mislabelled": -1}}),
        ("clean.json", {"classes": None}),
        (PLAN, {"side": "large"}),
        (PLAN, {"side": 10**9}),
        (PLAN, {"seeds": -1}),
        (PLAN, {"settings": 3}),
        (PLAN, {"preset": None}),
        (PLAN, {"encoding": {"encoder": 3}}),
        (PLAN, {"copied": "many"}),
        (PLAN, {"budget": "soon"}),
        (PLAN, {"data": []}),
    ],
)
def test_damaged_records_are_a_sentence(
    photos: Path, mistake: Callable[..., str], name: str, change: dict[str, object]
) -> None:
    folder = Path("out")
    words = ("clean", photos, "-o", folder, "--features", "none")
    write_finished(photos, folder)
    assert clean(str(photos), folder, features="none").rate.high == 1
    if name == PLAN:
        (folder / "clean.json").unlink()
    kept = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(kept | change))
    assert f"{name} is damaged" in mistake(*words)


@pytest.mark.usefixtures("short")
def test_the_same_folder_gives_the_same_bytes(tmp_path: Path, photos: Path) -> None:
    first, second = (quick(str(photos), tmp_path / name) for name in ("x", "y"))
    assert first == second
    assert {"issues.csv", "samples.csv", "model.safetensors", "noise-matrix.png"} <= first.keys()


@pytest.mark.usefixtures("short")
def test_a_stopped_call_goes_on_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _, _ = blobs(5, 400)
    whole = quick(data, tmp_path / "whole")
    from drpl.runs.run import Run

    real = Run.observe

    def interrupted(self: Run, name: str, *arguments: object, **more: object) -> object:
        if name == "detect":
            raise KeyboardInterrupt
        return real(self, name, *arguments, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Run, "observe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            quick(data, tmp_path / "stopped")
    with monkeypatch.context() as patch:
        patch.setattr("drpl.cleaning.clean.fit_budget", lambda *_: pytest.fail("chosen twice"))
        assert quick(data, tmp_path / "stopped") == whole
    before = (tmp_path / "stopped" / "issues.csv").stat().st_mtime_ns
    quick(data, tmp_path / "stopped")  # a finished one is left as it is
    assert (tmp_path / "stopped" / "issues.csv").stat().st_mtime_ns == before
    with pytest.raises(DrplError, match="made with seed 1, but 2"):
        clean(data, tmp_path / "stopped", seed=2)


def test_repeats_train_with_other_seeds(tmp_path: Path) -> None:
    data, true, given = blobs(9, 400)
    plan_quickest(data, tmp_path)
    found = clean(data, tmp_path, repeats=3, quiet=True)
    assert sorted(path.name for path in (tmp_path / "repeats").iterdir()) == ["seed-2", "seed-3"]
    assert found.figures["repeats"] == 3
    for label, one in enumerate(found.figures["classes"]):
        if one["samples"] >= 50:
            rate, real = one["noise rate"], (true != given)[given == label].mean()
            assert rate["low"] <= real <= rate["high"] < 1
    assert found.rate.low <= (true != given).mean() <= found.rate.high


def test_remarks_on_stages_are_logged_and_not_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of three seeds with three stages each, every one has the same to say."""
    caplog.set_level("INFO", "drpl")
    data, _, _ = blobs(9, 400)
    data = replace(data, notes=("a file was left out",))
    plan_quickest(data, tmp_path)
    monkeypatch.setattr(
        "drpl.detection.split.note_scarce_classes", lambda *_: ["one class is rare"]
    )
    clean(data, tmp_path, repeats=3)
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note:")]
    assert sum("a file was left out" in line for line in shown) == 1
    stages = ("relabel: ", "detect: ", "pooled: ", "pooled-final: ")
    logged = [one.message for one in caplog.records if one.message.startswith(stages)]
    assert len(logged) >= 9
    told = f"{len(logged)} remarks on stages are in the result.json of each run, not shown here"
    about = [line for line in shown if "on stages" in line or "rare" in line]
    assert about == [f"note: {told}"]
    kept = json.loads((tmp_path / "result.json").read_text())["stages"]
    assert "one class is rare" in kept[0]["notes"]


def test_images_without_files_are_written_for_review(tmp_path: Path, tiny: DatasetSplits) -> None:
    labels = tiny.train.labels.clone()
    labels[::6] = (labels[::6] + 1) % 3
    pixels = tiny.train.images.load(torch.arange(len(labels)))
    noisy = arrays(pixels.numpy(), labels.numpy())
    found = clean(noisy, tmp_path, budget="1s", features="none", quiet=True)
    where = CleanedFolder.load(tmp_path)
    assert where.root is None
    shown = {*found.issues["id"], *where.look.index}
    assert shown
    for number in shown:
        assert where.image(number).is_file()  # type: ignore[union-attr]


def test_earlier_decisions_hold_in_a_new_folder(
    cleaned: Path, messy: Messy, tmp_path: Path, command: Command
) -> None:
    old, new = (shutil.copytree(cleaned, tmp_path / name) for name in ("old", "new"))
    before = CleanedFolder.load(old)
    numbers = [int(number) for number in before.issues.index[:3]]
    with DecisionLog(before) as log:
        log.add(*(make_decision(before, n, "keep", "", "Ann") for n in numbers))
        log.undo("Ann", numbers[2])
    words = ["clean", messy.folder, "-o", new, "--decisions", old / "decisions.csv"]
    answer = command(*words)
    assert answer.code == 0, answer.err
    assert "2 of 2 earlier decisions hold here" in answer.err
    lines = read_decisions(CleanedFolder.load(new))
    assert [(line.id, line.action, line.who) for line in lines] == [
        (number, "keep", "Ann") for number in numbers[:2]
    ]
    command(*words)
    assert len(read_decisions(CleanedFolder.load(new))) == 2  # twice is once
    answer = command("clean", messy.folder, "-o", new, "--decisions", messy.folder / "no.csv")
    assert "there is no such file" in answer.err


def test_too_little_time_or_data_is_said(tmp_path: Path, command: Command) -> None:
    """With a budget of a second most of what was listed of 60 digits used to be right."""
    answer = command("clean", "digits", "--limit", 60, "-o", "few", "--budget", "1s",
                     "--features", "none")  # fmt: skip
    assert answer.code == 0, answer.err
    said = [answer.err, answer.out, Path("few/summary.md").read_text()]
    said.append(Path("few/report.html").read_text())
    for text in said:
        assert "steps only, where 300 or more are of use" in text
    for text in said[1:]:
        assert "It may be that none is, so nothing is listed." in text
        for words in ("may be that", "nothing is listed", "looks like wrong labels"):
            assert text.count(words) == 1  # it used to be said twice
    figures = json.loads(Path("few/clean.json").read_text())
    assert figures["noise rate"]["low"] == figures["noise rate"]["value"] == figures["issues"] == 0
    assert not pd.read_csv("few/samples.csv").flagged.any()


def test_a_few_rare_classes_are_said_but_the_list_stays(tiny: DatasetSplits) -> None:
    train = tiny.train
    pixels, labels = train.images.load(torch.arange(72)).numpy(), train.labels.numpy()

    def find(labels: NDArray[np.int64]) -> Doubts:
        choice = next(list_choices(arrays(pixels, labels)))
        return scale_epochs(choice, 10).find_doubts()

    assert find(labels) == Doubts([], on_rate=False)
    rare = np.where(np.arange(72) < 4, 3, labels)
    assert "1 of 4 classes have fewer than 5 images" in find(rare).texts[0]
    assert not find(rare).on_rate
    assert find(np.arange(72) // 3).on_rate


@pytest.mark.parametrize("count", [2, 9])
def test_hardly_any_images_are_refused(tmp_path: Path, count: int) -> None:
    few = arrays(np.zeros((count, 8, 8), np.uint8), np.arange(count) % 2)
    with pytest.raises(DrplError, match=f"{count} images are too few"):
        clean(few, tmp_path / "out", budget="1s", features="none", quiet=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", ["constant", "random", "one name", "many classes"])
def test_hard_data_end_well(tmp_path: Path, kind: str) -> None:
    draws, count = np.random.default_rng(1), 300 if kind == "many classes" else 40
    x = draws.normal(size=(count, 6))
    y = np.arange(count) % (100 if kind == "many classes" else 4)
    names = ["a", "a", "b", "b"] if kind == "one name" else None
    data = arrays(np.zeros_like(x) if kind == "constant" else x, y, classes=names)
    found = clean(data, tmp_path / "out", budget="1s", quiet=True)
    assert found.rate.low <= found.rate.value <= found.rate.high
    assert (kind == "many classes") == any(
        "classes have fewer" in n for n in found.figures["doubts"]
    )


def test_mistakes_are_said(tmp_path: Path, command: Command) -> None:
    for words, sentence in (
        (["clean", "nowhere/photos", "-o", "x"], "there is no file or folder"),
        (["clean", "digits", "-o", "x", "--budget", "soon"], "write a time such as 10m"),
        (["clean", "digits", "-o", "x", "--repeats", "0"], "repeats"),
    ):
        answer = command(*words)
        assert answer.code != 0
        assert sentence in answer.err
        assert "Traceback" not in answer.err


def test_vectors_of_image_files_are_shown_as_pictures(tmp_path: Path) -> None:
    """What `drpl encode` writes names the files, so that a review shows them."""
    data, _, given = blobs(9, 120)
    for number in range(120):
        Image.new("RGB", (9, 9), (number, 0, 0)).save(tmp_path / f"{number}.png")
    x = data.train.images.load(torch.arange(120)).numpy()
    names = np.array([f"{number}.png" for number in range(120)])
    np.savez(tmp_path / "made.npz", x=x, y=given, paths=names)
    source = str(tmp_path / "made.npz")
    found = clean(source, tmp_path / "cleaned", budget="1s", repeats=1, quiet=True)
    where = CleanedFolder.load(tmp_path / "cleaned")
    shown = {*found.issues["id"], *where.look.index}
    assert shown
    for number in shown:
        assert where.image(number) == tmp_path / f"{number}.png"
    assert (tmp_path / "cleaned" / "gallery.npz").exists()


@pytest.mark.parametrize(("repeats", "trained"), [(None, 2), (5, 5)])
def test_further_seeds_are_left_out_when_time_runs_short(
    repeats: int | None,
    trained: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each takes a minute of 200 seconds; who asks for five has them in any case."""
    now = [0.0]
    monkeypatch.setattr("drpl.cleaning.progress.time.monotonic", lambda: now[0])

    def execute(*_: object) -> None:
        now[0] += 60

    monkeypatch.setattr(cleaning, "execute", execute)
    monkeypatch.setattr(cleaning, "judge", lambda *_: None)
    choice = replace(next(list_choices(load("digits"))), seeds=5)
    asked = cleaning._Asked(repeats, 1, "none", "cpu", "200s")
    with Overall(200) as display:
        runs = list(cleaning._train(choice, tmp_path, asked, display))
    assert len(runs) == trained
    assert ("trained with 2 of 5 seeds" in capsys.readouterr().err) is (trained == 2)
