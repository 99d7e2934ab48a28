"""One bar for all of a cleaning: where it is, and how much time is left."""

import io

import pytest
from rich.console import Console

from drpl.cleaning import progress
from drpl.cleaning.progress import ENCODE, PLAN, TRAIN, WRITE, Overall, Step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass only when a test says so."""
    now = [0.0]
    monkeypatch.setattr("drpl.cleaning.progress.time.monotonic", lambda: now[0])
    return now


def render(overall: Overall, width: int) -> str:
    """What a terminal of that width shows."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as shown:
        console.print(overall)
    return shown.get()


@pytest.mark.parametrize("width", [80, 160])
def test_the_bar_fills_the_width_and_no_line_is_wrapped(clock: list[float], width: int) -> None:
    overall = Overall(600, quiet=True)
    stages = [Step(TRAIN, "relabel", 100, "run 1 of 5, relabel")]
    overall.begin(PLAN)
    overall.forecast(TRAIN, stages)
    line = overall.track("relabel", 40, unit="epoch ")
    clock[0] = 20
    line.move(10, "loss 1.234, accuracy 97.12 %")
    first, second, *rest = render(overall, width).splitlines()
    assert first.startswith("training ━")
    assert first.rstrip().endswith("left")
    assert len(first.rstrip()) == width
    assert second.strip() == "run 1 of 5, relabel, epoch 10 of 40, loss 1.234, accuracy 97.12 %"
    assert not any(rest)


def test_before_the_plan_what_is_left_is_the_rest_of_the_budget(clock: list[float]) -> None:
    overall = Overall(600, quiet=True)
    assert overall.estimate_rest() == 600
    clock[0] = 100
    overall.follow(ENCODE)(10, 1000)
    assert overall.estimate_rest() == overall.left == 500
    assert render(overall, 80).startswith("encoding")
    clock[0] = 700
    assert overall.left == 0


def test_a_step_is_extrapolated_by_its_pace_and_the_others_as_forecast(clock: list[float]) -> None:
    overall = Overall(600, quiet=True)
    overall.begin(PLAN)
    overall.forecast(TRAIN, [Step(TRAIN, name, 60) for name in ("a", "b", "a", "b")])
    writing = progress.PARTS[WRITE][1] * 600
    line = overall.track("a", 10)
    assert overall.estimate_rest() == 4 * 60 + writing
    clock[0] = 50
    line.move(5)  # half of it took 50 seconds
    assert overall.estimate_rest() == pytest.approx(50 + 3 * 60 + writing)
    overall.track("b", 10)
    overall.track("a", 10)  # the second one
    assert overall.estimate_rest() == pytest.approx(2 * 60 + writing)
    overall.track("b", 10, done=5)  # resumed in the middle
    assert overall.estimate_rest() == pytest.approx(30 + writing)
    overall.begin(WRITE)
    assert overall.estimate_rest() == pytest.approx(writing)


def test_the_bar_never_goes_back(clock: list[float]) -> None:
    overall = Overall(100, quiet=True)
    clock[0] = 30
    assert " 30%" in render(overall, 80)
    overall.forecast(TRAIN, [Step(TRAIN, "slow", 10_000)])
    assert " 30%" in render(overall, 80)


def test_a_slow_plan_leaves_room_on_the_bar(clock: list[float]) -> None:
    overall = Overall(100, quiet=True)
    clock[0] = 99
    assert " 35%" in render(overall, 80)
    overall.forecast(TRAIN, [Step(TRAIN, "train", 99)])
    line = overall.track("train", 2)
    clock[0] = 198
    line.move(2)
    assert " 93%" in render(overall, 80)  # writing is left


def test_elsewhere_a_line_now_and_then(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Overall(100) as overall:
        overall.say("the images")  # a mistake in them would be one sentence, with none before it
        line = overall.track(ENCODE, 1000)
        for done in range(0, 1001, 10):
            line.move(done)
        overall.begin("unknown")  # stays where it is
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "encoding: 1,000 of 1,000; about 100 s left"
