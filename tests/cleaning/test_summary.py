from typing import Any

from drpl.cleaning.summary import describe_findings

FIGURES: dict[str, Any] = {
    "samples": 1000,
    "noise rate": {"value": 0.2, "low": 0.18, "high": 0.22},
    "issues": 190,
    "verdicts": {"mislabelled": 150, "outside": 40, "ambiguous": 0},
    "classes": [
        {"name": "cat", "samples": 500, "issues": 160, "share": 0.32},
        {"name": "dog", "samples": 500, "issues": 30, "share": 0.06},
    ],
    "pairs": [
        {"true": "dog", "given": "cat", "share": 0.25},
        {"true": "cat", "given": "dog", "share": 0.001},
    ],
    "repeats": 1,
    "doubts": [],
    "notes": ["left out x.jpg: broken"],
}


def test_the_summary() -> None:
    figures = FIGURES.copy()
    text = " ".join(describe_findings(figures))
    for part in ("20.0%", "18.0%", "190", "150 look like another class and 40 look like none",
                 "dog as cat (25%)", "Classes to distrust: cat (160 of 500 doubted)",
                 "`drpl review`", "left out x.jpg"):  # fmt: skip
        assert part in text
    cat, dog = figures["classes"]
    rate = {"value": 0.33, "low": 0.27, "high": 0.4}
    figures["classes"] = [cat | {"noise rate": rate}, dog]
    known = "Classes to distrust: cat (160 of 500 doubted, 27% to 40% wrong)"
    assert known in " ".join(describe_findings(figures))
    figures["classes"] = [cat | {"noise rate": {"value": 0, "low": 0, "high": 1}}, dog]
    assert "cat (160 of 500 doubted)" in " ".join(describe_findings(figures))
    assert "could be either" not in text
    assert "cat as dog" not in text
    figures["verdicts"] = {"mislabelled": 190, "outside": 0, "ambiguous": 0}
    assert "Of these, 190 look like another class." in describe_findings(figures)


def test_a_list_of_none_or_one_and_many_notes() -> None:
    nothing = FIGURES | {"issues": 0, "verdicts": {}}
    assert "None is listed: no label is more" in describe_findings(nothing)[0]
    assert "**1** is listed: it is more probably" in describe_findings(FIGURES | {"issues": 1})[0]
    many = describe_findings(FIGURES | {"notes": [f"left out {k}" for k in range(12)]})
    assert many[-2:] == ["Note: left out 9.", "All 12 notes are in `clean.json`."]


def test_what_features_found_is_one_paragraph() -> None:
    found = {"duplicates": {"pairs": 9, "conflicts": 0, "leaks": 0}, "outliers": 0, "alike": []}
    figures = FIGURES | {"findings": found}
    assert "Besides" not in " ".join(describe_findings(figures))
    found["duplicates"] = {"pairs": 9, "conflicts": 2, "leaks": 1}
    found |= {"outliers": 3, "alike": [{"first": "cat", "second": "dog", "share": 0.9}]}
    assert (
        "Besides, 2 pairs of near-duplicates have different labels; 1 test image has a "
        "near-duplicate in the training part; 3 images look out of place in every class; "
        "cat and dog look like one class (`duplicates.csv`, `outliers.csv`)."
    ) in describe_findings(figures)
