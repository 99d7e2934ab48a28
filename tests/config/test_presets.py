"""What presets call the paper's is in the paper."""

import re
from importlib.resources import files

import pytest

FOLDER = files("drpl.config.presets")
TABLE, LINE = re.compile(r"\[(.+)]$"), re.compile(r"(\w+) = (.+?)\s+# (.*)$")
# Numbers in the paper's text, by method and setting, wherever they hold. Batches of 128 are said of
# all methods.
RATE = {f"[[1, 0.1], [{a}, 0.01], [{b}, 0.001]]" for a, b in ((45, 80), (75, 110), (100, 150))}
LATE = {f"[[1, 0.1], [{a}, 0.01], [{b}, 0.001]]" for a, b in ((150, 225), (150, 175), (100, 125))}
STATED: dict[str, dict[str, set[str]]] = {
    "shared": {"network": {'"auto"', '"resnet18"'}, "crop": {"0.875"}},
    "cross_entropy": {"schedule.epochs": {"40"}, "schedule.lr": {"[[1, 0.1]]"}},
    "mixup": {
        "alpha": {"1.0"},
        "schedule.epochs": {"300", "200"},
        "schedule.lr": {
            "[[1, 0.1], [100, 0.01], [250, 0.001]]",
            "[[1, 0.1], [75, 0.01], [120, 0.001]]",
        },
    },
    "forward": {
        "begin": {"50"},
        "schedule.epochs": {"200", "125"},
        "schedule.lr": {
            "[[1, 0.1], [100, 0.01], [150, 0.001]]",
            "[[1, 0.1], [75, 0.01], [120, 0.001]]",
        },
    },
    "joint": {
        "relabel.begin": {"40"},
        "relabel_schedule.epochs": {"100"},
        "relabel_schedule.lr": {"[[1, 0.1], [45, 0.01], [80, 0.001]]"},
        "retrain_schedule.epochs": {"120"},
        "retrain_schedule.lr": {"[[1, 0.1], [40, 0.01], [80, 0.001]]"},
    },
    "gce": {"start": {'"best"'}, "schedule.epochs": {"120"}},
    "dmi": {"start": {'"best"'}, "schedule.epochs": {"100"}, "schedule.lr": {"[[1, 1e-6]]"}},
    "bootstrap": {
        "begin": {"102"},
        "schedule.epochs": {"300", "200"},
        "schedule.lr": {
            "[[1, 0.1], [100, 0.01], [250, 0.001]]",
            "[[1, 0.1], [100, 0.01], [175, 0.001]]",
        },
    },
    "pencil": {
        "learn_from": {"71", "41"},
        "learn_until": {"200", "100"},
        "label_rate": {"600.0", "10000.0"},
        "compatible": {"0.1"},
        "entropy": {"0.4"},
        "schedule.epochs": {"320", "200"},
    },
    "drpl": {
        "first_threshold": {"0.05", "0.1"},
        "second_threshold": {"0.5"},
        "relabel.begin": {"40", "70"},
        "relabel_schedule.epochs": {"100", "130"},
        "relabel_schedule.lr": RATE,
        "detect_schedule.epochs": {"175", "150"},
        "detect_schedule.lr": RATE | LATE,
        "final_schedule.epochs": {"300", "200"},
        "final_schedule.lr": LATE,
    },
}
OTHERS = {"coteaching", "reed", "sop"}  # not in the paper: P is the method's own there
NAMES = sorted(path.name.removesuffix(".toml") for path in FOLDER.iterdir() if ".toml" in path.name)


def read_tags(name: str) -> list[tuple[str, str, str]]:
    """Setting, value and comment of every line of a preset file."""
    found, place = [], ""
    for line in FOLDER.joinpath(f"{name}.toml").read_text("utf-8").splitlines():
        if table := TABLE.match(line):
            place = table[1].partition(".")[2]
        elif one := LINE.match(line):
            found.append((f"{place}.{one[1]}".lstrip("."), one[2], one[3]))
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHERS])
def test_what_is_called_the_papers_is_in_the_paper(name: str) -> None:
    stated = STATED.get(name, {})
    for setting, value, comment in read_tags(name):
        if not re.match(
            r"P(:|$)", comment
        ):  # "P x 0.3" and "P for ..., C for ..." say what they are
            continue
        common = {"128"} if setting.endswith("batch_size") else set()
        assert value in stated.get(setting, common), f"{name}: {setting} = {value}  # {comment}"


def test_every_number_has_its_source() -> None:
    assert {*STATED} <= {*NAMES}
    for name in NAMES:
        tags = read_tags(name)
        text = FOLDER.joinpath(f"{name}.toml").read_text("utf-8")
        lines = [line for line in text.splitlines() if line.strip() and line[0] not in "#["]
        assert len(tags) == len(lines), name  # none without a comment
        legend = set(re.findall(r"\b([PCIDO]) = ", text.partition("[")[0]))
        for setting, _, comment in tags:
            assert comment[0] in legend, f"{name}: {setting}: {comment}"
