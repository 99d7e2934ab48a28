import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drpl.cleaning.folder import CleanedFolder, format_csv
from drpl.cleaning.review.decision_log import (
    ActiveDecisions,
    Decision,
    DecisionLog,
    add_new,
    make_decision,
    measure_whole_lines,
    parse_decisions,
    parse_file,
    read_decisions,
)
from drpl.errors import DataError, RunError, StorageError
from tests.support.cleaned import CLASSES, make, rows


@pytest.fixture
def cleaned(tmp_path: Path) -> CleanedFolder:
    return CleanedFolder.load(make(tmp_path).folder)


def first(cleaned: CleanedFolder, count: int) -> list[int]:
    return [int(number) for number in cleaned.issues.index[:count]]


def test_decisions_are_on_disk_when_add_returns(cleaned: CleanedFolder) -> None:
    a, b, c, d = first(cleaned, 4)
    with DecisionLog(cleaned) as log:
        for number, action, label in (
            (a, "accept", ""),
            (b, "keep", ""),
            (c, "relabel", CLASSES[3]),
            (d, "outside", ""),
        ):
            log.add(make_decision(cleaned, number, action, label, "Ann, B."))
            assert read_decisions(cleaned)[-1].id == number  # with the log still open
    lines = rows(cleaned.folder / "decisions.csv")
    assert [line["action"] for line in lines] == ["accept", "keep", "relabel", "outside"]
    assert [line["label"] for line in lines] == [
        *(cleaned.issues.at[a, "suggested_label"], cleaned.issues.at[b, "given_label"]),
        *(CLASSES[3], ""),
    ]
    assert {line["who"] for line in lines} == {"Ann, B."}
    assert lines[0]["why"].startswith("accepted suggestion, p_noisy ")


def test_an_undo_brings_back_what_was_before(cleaned: CleanedFolder) -> None:
    a, b = first(cleaned, 2)
    with DecisionLog(cleaned) as log:
        nothing = pytest.raises(DataError, match=f"no decision on image {a} to take back")
        with nothing:
            log.undo("Ann", a)
        log.add(make_decision(cleaned, a, "keep", "", "Ann"))
        log.add(make_decision(cleaned, a, "accept", "", "Ann"))
        log.add(make_decision(cleaned, b, "outside", "", "Ann"))
        log.undo("Ann", a)
        assert log.active.by_image()[a].action == "keep"
        assert log.lines[-1].why == "took back: accept"
        log.undo("Ann", b)
        log.undo("Ann", a)
        assert log.active.by_image() == {}
        with nothing:
            log.undo("Ann", a)
    assert ActiveDecisions(read_decisions(cleaned)).by_image() == {}
    assert len(read_decisions(cleaned)) == 6  # nothing was ever taken out of the file


def test_a_crash_tears_one_line_at_most(cleaned: CleanedFolder) -> None:
    """Cut after every byte: what was written whole is read, and the next line is whole again."""
    numbers = first(cleaned, 3)
    path = cleaned.folder / "decisions.csv"
    with DecisionLog(cleaned) as log:
        ends = []
        for number in numbers:
            log.add(make_decision(cleaned, number, "relabel", CLASSES[2], 'a "b",\nc'))
            ends.append(path.stat().st_size)
    data = path.read_bytes()
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert [decision.id for decision in read_decisions(cleaned)] == numbers[:whole]
        if cut % 7 == 0 or cut + 1 in ends:
            with DecisionLog(cleaned) as log:
                log.add(make_decision(cleaned, numbers[0], "keep", "", "d"))
            assert [d.id for d in read_decisions(cleaned)] == [*numbers[:whole], numbers[0]]


def test_what_is_cut_off_is_kept_aside(cleaned: CleanedFolder) -> None:
    path = cleaned.folder / "decisions.csv"
    with DecisionLog(cleaned):
        pass
    whole = path.read_bytes()
    path.write_bytes(whole + b'2026,"Ann')
    with DecisionLog(cleaned):
        pass
    assert path.read_bytes() == whole
    assert (cleaned.folder / "decisions.torn").read_bytes() == b'2026,"Ann'


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(names, names, names), max_size=5))
def test_any_text_survives(tmp_path: Path, texts: list[tuple[str, str, str]]) -> None:
    lines = [Decision("t", who, 1, "relabel", label, why) for who, label, why in texts]
    path = tmp_path / "any.csv"
    path.write_bytes(format_csv([Decision._fields, *lines]).encode())
    assert list(parse_file(path)) == lines
    assert measure_whole_lines(path.read_bytes()) == path.stat().st_size


def test_one_at_a_time(cleaned: CleanedFolder) -> None:
    taken = pytest.raises(StorageError, match="being reviewed by another")
    with DecisionLog(cleaned), taken, DecisionLog(cleaned):
        pass
    with DecisionLog(cleaned):
        pass


def test_a_full_disk_leaves_no_half_line(
    cleaned: CleanedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = first(cleaned, 2)
    with DecisionLog(cleaned) as log:
        log.add(make_decision(cleaned, a, "keep", "", "Ann"))
        before = log.path.read_bytes()

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StorageError, match="No space left"):
                log.add(make_decision(cleaned, b, "keep", "", "Ann"))
        assert log.path.read_bytes() == before
        assert b not in log.active.by_image()
        log.add(make_decision(cleaned, b, "accept", "", "Ann"))
    assert [decision.action for decision in read_decisions(cleaned)] == ["keep", "accept"]


def test_decisions_that_make_no_sense(cleaned: CleanedFolder) -> None:
    number = first(cleaned, 1)[0]
    for (image, action, label), sentence in (
        ((number, "acept", ""), "did you mean 'accept'"),
        ((4000, "keep", ""), "there is no image 4000"),
        ((number, "relabel", "asch"), "did you mean 'ash'"),
        ((number, "relabel", ""), "is not a class"),
    ):
        with pytest.raises(DataError, match=sentence):
            make_decision(cleaned, image, action, label, "Ann")


HEAD = "time,who,id,action,label,why\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id,action\n1,keep\n", "is no list of decisions"),
        (HEAD + "t,Ann,one,keep,ash,\n", "row 1"),
        (HEAD + "t,Ann,0,kept,ash,\n", "row 1"),
        (HEAD + "t,Ann,0,keep,ash\n", "row 1"),
        (HEAD + "t,Ann,4000,keep,ash,\n", "no image 4000"),
        (HEAD + "t,Ann,0,relabel,oak,\n", "'oak' is not a class"),
        (HEAD + "t,Ann,0,accept,,\n", "lacks its label"),
    ],
)
def test_a_file_spoilt_by_hand(cleaned: CleanedFolder, text: str, sentence: str) -> None:
    (cleaned.folder / "decisions.csv").write_text(text)
    with pytest.raises(RunError, match=sentence):
        read_decisions(cleaned)


def test_taking_in_an_exported_file(cleaned: CleanedFolder, tmp_path: Path) -> None:
    a, b = first(cleaned, 2)
    path = tmp_path / "decisions (1).csv"
    path.write_text(
        HEAD + f"2026-01-01T00:00:00.001Z,Eve,{a},accept,,\n"
        f'2026-01-01T00:00:00.002Z,Eve,{b},relabel,"birch, white",\n'
        f"2026-01-01T00:00:00.003Z,Eve,{b},undo,,\n"
    )
    with DecisionLog(cleaned) as log:
        assert add_new(log, parse_decisions(cleaned, path, "Ann")) == (3, 0)
        assert add_new(log, parse_decisions(cleaned, path, "Ann")) == (0, 3)  # twice is once
    active = ActiveDecisions(read_decisions(cleaned)).by_image()
    assert list(active) == [a]
    assert active[a].label == cleaned.issues.at[a, "suggested_label"]
    assert active[a].why.startswith("accepted suggestion")
    path.write_text(HEAD + f"t,Eve,{a},keep,,\nt,Eve,4000,keep,,\n")
    with pytest.raises(DataError, match="4000"):  # all of a file or nothing
        parse_decisions(cleaned, path, "Ann")
    path.write_text(HEAD + f"t, ,{a},keep,,\nt,model,{b},keep,,\n")
    with pytest.raises(DataError, match="stands for the model"):
        parse_decisions(cleaned, path, "Ann")
    path.write_text(HEAD + f"t, ,{a},keep,,\nt,Eve,{b},keep,,\n")
    with DecisionLog(cleaned) as log:
        assert add_new(log, parse_decisions(cleaned, path, "Ann")) == (2, 0)
        assert [line.who for line in log.lines[-2:]] == ["Ann", "Eve"]  # who signed is believed
