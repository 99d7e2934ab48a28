"""Moves of the review page: several images at once, search, orders, compare, undo."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Locator, expect

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import read_decisions
from drpl.cleaning.review.page import write_page
from tests.cleaning.review.test_browser import (
    DESK,
    EVERY,
    expect_decided,
    expect_open,
    expect_shown,
    leave,
    reviewing,
    selected,
    shoot,
    stands,
    wait_until_saved,
)
from tests.support.browser import Tab
from tests.support.cleaned import CLASSES, make, make_many


def picked(tab: Tab) -> list[int]:
    numbers: list[int] = tab.run("[...picked].map((row) => row.id)")
    return numbers


def expect_picked(tab: Tab, count: int) -> None:
    if count:
        expect(tab.page.locator("#picked-text")).to_have_text(f"{count} selected")
    else:
        expect(tab.page.locator("#picked")).to_be_hidden()
    # As many cards are marked as the list that is shown by now has; another one may be on its way.
    marked = "document.querySelectorAll('.picking .card[aria-selected=true]').length"
    tab.wait(f"{marked} === rows.filter((row) => picked.has(row)).length")


def test_one_decision_for_all_that_are_selected(tab: Tab, tmp_path: Path) -> None:
    made = make(tmp_path, 400)
    page, cards = tab.page, tab.page.locator(".card")
    issues = CleanedFolder.load(made.folder).issues
    order = [int(number) for number in issues.index]
    with reviewing(made.folder) as (address, _):
        tab.open(address)
        expect(cards).to_have_count(60)

        # By clicks: a range, one more, one less; then one decision.
        cards.nth(1).click()
        cards.nth(3).click(modifiers=["Shift"])
        cards.nth(5).click(modifiers=["Control"])
        cards.nth(2).locator(".pick").click()
        expect_picked(tab, 3)
        assert sorted(picked(tab)) == sorted(order[k] for k in (1, 3, 5))
        expect(page.locator("#keep")).to_contain_text("Keep the labels: all 3")
        shoot(tab, "selected", *EVERY)
        tab.press("a")
        expect_decided(tab, 3)
        wanted = {
            n: ("outside", "")
            if issues.at[n, "verdict"] == "outside"
            else ("accept", issues.at[n, "suggested_label"])
            for n in (order[k] for k in (1, 3, 5))
        }
        assert stands(made.folder) == wanted
        expect_picked(tab, 0)
        tab.press("u")  # all of it
        expect_decided(tab, 0)
        tab.press("Shift+U")  # and all of it again, as it was
        expect_decided(tab, 3)
        assert stands(made.folder) == wanted
        tab.press("Control+z")
        expect_decided(tab, 0)

        # By keys: x, a range by arrows, none, the page, and all that pass the filters.
        cards.nth(0).click()
        tab.press("x", "ArrowRight", "ArrowRight", "x")
        expect_picked(tab, 2)
        tab.press("Escape")
        expect_picked(tab, 0)
        tab.press("Shift+ArrowRight", "Shift+ArrowRight")
        expect_picked(tab, 3)
        cards.nth(0).click()
        expect_picked(tab, 0)  # a plain click begins anew
        tab.press("Control+a")
        expect_picked(tab, 60)
        page.click("#next")
        expect_picked(tab, 60)  # those of the first page
        page.click("#pick-all")
        expect_picked(tab, len(issues))
        tab.press("o", *CLASSES[1][:3], "Enter")
        expect_decided(tab, len(issues))
        kept = issues["given_label"] == CLASSES[1]
        relabelled = dict.fromkeys(issues.index[~kept], ("relabel", CLASSES[1]))
        assert stands(made.folder) == relabelled | dict.fromkeys(
            issues.index[kept], ("keep", CLASSES[1])
        )
        assert read_decisions(CleanedFolder.load(made.folder))[-1].why.endswith(
            f"for {len(issues)} at once"
        )
        page.reload()
        expect_decided(tab, len(issues))
        tab.press("u")  # also after a reload it is one decision
        expect_decided(tab, 0)

        # Another list, another selection.
        tab.press("x")
        expect_picked(tab, 1)
        page.select_option("#class", CLASSES[0])
        expect_picked(tab, 0)
        leave(tab)


def test_compare_side_by_side(tab: Tab, tmp_path: Path) -> None:
    made = make(tmp_path, 60)
    page = tab.page
    issues = CleanedFolder.load(made.folder).issues
    with reviewing(made.folder) as (address, _):
        tab.open(address)
        first, second = (int(number) for number in issues.index[:2])
        expect(page.locator(".card.chosen")).to_have_id(f"card-{first}")
        tab.press("c")
        expect(page.locator("#news")).to_contain_text("Select two images")
        tab.press("x", "ArrowRight", "x", "c")
        expect_open(tab, "#zoom")
        expect(page.locator("#largest")).to_have_attribute("src", f"/image/large/{first}")
        expect(page.locator("#beside")).to_have_attribute("src", f"/image/large/{second}")
        expect(page.locator("#caption")).to_contain_text(f"Image {second}: given")
        shoot(tab, "compare", *EVERY)
        tab.press("k")  # decides on both
        wait_until_saved(tab)
        expect_decided(tab, 2)
        tab.press("z")
        # An image that is likely of the class is shown beside the chosen one.
        here = selected(tab)
        near = issues.at[here, "near_given"].split()[0]
        page.locator("#near_given button").first.click()
        expect(page.locator("#largest")).to_have_attribute("src", f"/image/large/{here}")
        expect(page.locator("#beside")).to_have_attribute("src", f"/image/large/{near}")
        tab.press("Escape")
        leave(tab)


def test_any_decision_can_be_undone(tab: Tab, tmp_path: Path) -> None:
    made = make(tmp_path, 60)
    page = tab.page
    order = [int(number) for number in CleanedFolder.load(made.folder).issues.index]
    with reviewing(made.folder) as (address, _):
        tab.open(address)
        expect(page.locator(".card.chosen")).to_be_visible()
        tab.press("k", "n", "x", "ArrowRight", "x", "k")
        expect_decided(tab, 4)
        page.reload()
        expect_decided(tab, 4)
        tab.press("h")
        expect_open(tab, "#history")
        past = page.locator("#past-list li")
        expect(past).to_have_count(3)
        expect(past.first).to_contain_text("2 images")
        shoot(tab, "history", *EVERY)
        past.filter(has_text="not any class").locator("button").click()  # not the last one
        expect(past).to_have_count(2)
        expect_decided(tab, 3)
        assert set(stands(made.folder)) == {order[0], *order[2:4]}
        tab.press("h")
        expect_open(tab, "#history", opened=False)
        tab.press("Shift+U")
        expect_decided(tab, 4)
        assert stands(made.folder)[order[1]] == ("outside", "")
        # Several at once, whenever they were decided on.
        page.locator(".card").nth(1).click()
        page.locator(".card").nth(2).click(modifiers=["Shift"])
        expect(page.locator("#retract")).to_have_text("Undo these 2")
        page.click("#retract")
        expect_decided(tab, 2)
        assert set(stands(made.folder)) == {order[0], order[3]}
        leave(tab)


def test_all_images_searched_and_sorted(tab: Tab, tmp_path: Path) -> None:
    """What the page finds among all images, beside what pandas does."""
    made = make(tmp_path, 200)
    page, samples = tab.page, made.samples
    issues = CleanedFolder.load(made.folder).issues
    clean = next(n for n in samples.index if n not in issues.index)
    with reviewing(made.folder) as (address, _):
        tab.open(address)
        page.click("#tab-every")
        expect_shown(tab, len(samples))
        rest = samples.drop(issues.index).sort_values("p_noisy", ascending=False, kind="stable")
        worst = pd.concat([samples.loc[issues.index], rest])
        doubt = {"ascending": False, "kind": "stable"}
        kinds = issues["verdict"].map(["mislabelled", "outside"].index).reindex(worst.index)
        orders = {
            "worst": worst,
            "risk": worst.sort_values("p_noisy", **doubt),
            "confidence": worst.sort_values("confidence", **doubt),
            "id": samples,
            "suggested": worst.iloc[
                worst["suggested_label"].map(CLASSES.index).argsort(kind="stable")
            ],
            "verdict": worst.iloc[kinds.fillna(3).argsort(kind="stable")],
        }
        for sort, table in orders.items():
            page.select_option("#sort", sort)
            expect(page.locator(".card").first).to_have_id(f"card-{table.index[0]}")
            assert tab.run("matched.map((row) => row.id)") == list(table.index), sort
        page.select_option("#sort", "file")
        tab.wait("!turning")
        paths = tab.run("matched.map((row) => row.path)")
        assert paths == sorted(paths, key=lambda path: [
            int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)
        ])  # fmt: skip
        page.click("#turn")
        expect(page.locator("#turn")).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".card").first).to_have_id(
            f"card-{list(samples['path']).index(paths[-1])}"
        )
        page.click("#turn")

        # By a part of the file's name, or by number; the keys are for the images afterwards.
        tab.press("/")
        expect(page.locator("#search")).to_be_focused()
        tab.press(*"TREE 19")
        expect_shown(tab, int(samples["path"].str.contains("tree 19").sum()))
        assert page.locator("#search").input_value() == "TREE 19"
        shoot(tab, "search", *EVERY)
        page.fill("#search", str(clean))
        page.press("#search", "Enter")
        tab.wait(f"!turning && matched.some((row) => row.id === {clean})")
        page.fill("#search", "no such file")
        expect(page.locator("#nothing")).to_be_visible()
        page.press("#search", "Escape")
        expect_shown(tab, len(samples))

        # What is not suspected can be decided on as well, and nothing is suggested for it.
        page.select_option("#verdict", "not suspected")
        expect_shown(tab, len(samples) - len(issues))
        expect(page.locator("#accept")).to_be_hidden()
        here = selected(tab)
        tab.press("n")
        expect_decided(tab, 1)
        assert stands(made.folder) == {here: ("outside", "")}
        page.select_option("#verdict", "")
        page.select_option("#sort", "newest")
        expect(page.locator(".card").first).to_have_id(f"card-{here}")
        page.select_option("#state", "decided")
        expect_shown(tab, 1)
        shoot(tab, "every", DESK)
        leave(tab)
    # A page without server has its issues only, and searches them.
    file = tmp_path / "page.html"
    write_page(CleanedFolder.load(made.folder), file, "Eve")
    tab.open(file.as_uri())
    expect(page.locator("#tabs")).to_be_hidden()
    page.fill("#search", "tree 1")
    expect_shown(tab, int(issues["path"].str.contains("tree 1").sum()))
    tab.press("Enter", "Control+a", "k")
    expect_decided(tab, int(issues["path"].str.contains("tree 1").sum()))


def test_everything_has_a_name_and_contrast(tab: Tab, tmp_path: Path) -> None:
    """Who hears the page, or sees little, can use it."""
    made = make(tmp_path, 60)
    with reviewing(made.folder) as (address, _):
        for dark in (False, True):
            tab.resize(1280, 800, dark=dark)
            tab.open(address)
            expect(tab.page.locator(".card.chosen")).to_be_visible()
            tab.press("x")
            fields = tab.page.locator("button:visible, select:visible, input:visible")
            assert [nameless(field) for field in fields.all() if nameless(field)] == []
            for place in ("#tally", "#keep", "#relabel", "#outside", "#picked-text", "dt", "small"):
                assert contrast(tab, place) >= 4.5, (place, dark)
            expect(tab.page.locator("#grid")).to_have_attribute("aria-multiselectable", "true")
        leave(tab)


def nameless(field: Locator) -> str:
    """The element, if nothing says what it is for."""
    named = field.evaluate(
        "(e) => e.innerText || e.ariaLabel || e.ariaHidden === 'true' || e.labels?.length"
    )
    return "" if named else str(field.evaluate("(e) => e.outerHTML"))


def contrast(tab: Tab, place: str) -> float:
    """WCAG's ratio of an element's ink and what is behind it."""
    found: str = tab.run(
        f"(() => {{ let e = document.querySelector({json.dumps(place)}); const ink = "
        "getComputedStyle(e).color; let back; do { back = getComputedStyle(e).backgroundColor; "
        "e = e.parentElement; } while (/, 0\\)$/.test(back)); return ink + back; })()"
    )
    ink, back = (
        [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
        for colour in re.findall(r"\(([^)]*)\)", found)
    )
    lights = sorted(
        sum(
            weight
            * ((c / 255 / 12.92) if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4)
            for weight, c in zip((0.2126, 0.7152, 0.0722), colour, strict=True)
        )
        for colour in (ink, back)
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.slow
def test_fifty_thousand_images(tab: Tab, tmp_path: Path) -> None:
    """Milliseconds to the first picture, and of every search and order; `-s` prints them."""
    folder = make_many(tmp_path, 50_000, 10_000)
    seen = "[...document.querySelectorAll('.card img')].some((image) => image.naturalWidth > 0)"
    taken = (
        "(async () => { const began = performance.now(); await (%s); "
        "return Math.round(performance.now() - began); })()"
    )
    times: dict[str, float] = {}
    with reviewing(folder) as (address, _):
        tab.open(address)
        tab.wait(seen)
        first = "performance.getEntriesByType('resource').find((one) => /image/.test(one.name))"
        times["first picture"] = round(tab.run(f"{first}.responseEnd"))
        # Only what is seen is fetched.
        asked = [one for one in tab.requests if "/image/small/" in one]
        assert len(asked) <= 60
        times["all images"] = tab.run(taken % "openTab('every')")
        expect_shown_many(tab, "50,000")
        tab.wait(seen)
        for word, count in (("img_4999", "10"), ("49", "2,475"), ("no such", "0"), ("", "50,000")):
            script = f"$('search').value = {json.dumps(word)}, ask()"
            times[f"search {word!r}"] = tab.run(taken % script)
            expect_shown_many(tab, count)
        for sort in tab.run("Object.keys(ORDERS)"):
            times[f"order {sort}"] = tab.run(taken % f"$('sort').value = '{sort}', ask()")
        times["last page"] = tab.run(taken % "load(49_980)")
        tab.press("Control+a", "Control+a")
        expect(tab.page.locator("#picked-text")).to_have_text("50,000 selected")
        tab.press("Escape", "k")
        expect(tab.page.locator("#tally")).to_have_text("1 of 50,000 decided")
        leave(tab)
    print(json.dumps(times, indent=1))
    assert times["first picture"] < 10_000  # a few hundred on a quiet machine
    assert max(times.values()) < 10_000
    assert sorted(times.values())[len(times) // 2] < 2000


def expect_shown_many(tab: Tab, count: str) -> None:
    expect(tab.page.locator("#where")).to_have_text(re.compile(rf"of {count}"))


def test_no_image_stands_under_the_words_of_another(tab: Tab, tmp_path: Path) -> None:
    """Also while one runs through them, and the image that is asked for is not there yet."""
    made = make(tmp_path, 40)
    with reviewing(made.folder) as (address, _):
        tab.open(address)
        expect(tab.page.locator(".card.chosen")).to_be_visible()
        for _ in range(4):
            tab.press("ArrowRight", "ArrowRight")
            own = "$('large').getAttribute('src') === `/image/large/${rows[chosen].id}`"
            assert tab.run(f"!$('large').getAttribute('src') || {own}")
            tab.wait(f"{own} && !$('large').classList.contains('waiting')")
        leave(tab)
