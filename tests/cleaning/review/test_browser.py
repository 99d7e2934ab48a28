"""The page in a real browser: filters, keys, reloads, a killed server, and what comes of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from drpl.cleaning.folder import VERDICTS, CleanedFolder
from drpl.cleaning.review.decision_log import (
    ActiveDecisions,
    DecisionLog,
    make_decision,
    read_decisions,
)
from drpl.cleaning.review.page import write_page
from tests.support.cleaned import CLASSES, make, make_large, rows

pytest.importorskip("websockets")
from tests.support.browser import CHROMIUM, Browser, browsing, wait_for

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium here")

SHOTS = Path(__file__).parents[3] / "build" / "screenshots"
DESK, PHONE = (1280, 800, False), (390, 844, True)
EVERY = (DESK, PHONE, (1280, 800, True), (390, 844, False))
QUIET = "document.querySelectorAll('[data-state=saving]').length === 0"
SAVED = "document.querySelectorAll('.card:not([data-state=\"\"], [data-state=saving])').length"
LOADED = (  # those that can be seen
    "[...document.images].every(image => image.complete || (box => !box.width || box.bottom < 0"
    " || box.top > innerHeight)(image.getBoundingClientRect()))"
)
CARDS = (  # id -> what its mark says
    "Object.fromEntries([...document.querySelectorAll('.card')].map("
    "card => [card.id.slice(5), [card.dataset.state, card.querySelector('.mark').textContent]]))"
)


@contextmanager
def reviewing(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`drpl review` in a process of its own, and the address it prints."""
    words = [sys.executable, "-m", "drpl", "review", str(folder), "--no-open", "--who", "Ann"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield next(line.strip() for line in running.stdout if "http://" in line), running
        finally:
            running.kill()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture
def browser(tab: Browser) -> Browser:
    """A tab of usual size."""
    tab.shape(1280, 800)
    tab.errors.clear()
    return tab


def leave(browser: Browser) -> None:
    """Go away while the server still runs; the console must have had nothing to say."""
    browser.call("Page.navigate", url="about:blank")
    browser.wait("location.href === 'about:blank'")
    assert browser.errors == []


def stands(folder: Path) -> dict[int, tuple[str, str]]:
    active = ActiveDecisions(read_decisions(CleanedFolder.load(folder))).by_image()
    return {number: (decision.action, decision.label) for number, decision in active.items()}


def chosen(browser: Browser) -> int:
    return int(browser.run("document.querySelector('.card[aria-selected=true]').id.slice(5)"))


def shoot(browser: Browser, name: str, *screens: tuple[int, int, bool]) -> None:
    """On a desk and on a phone, by day and by night; nothing may stick out on the side."""
    for width, height, dark in screens or (DESK, PHONE):
        browser.shape(width, height, dark=dark)
        browser.wait(LOADED)
        browser.shoot(SHOTS / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        assert browser.run("document.documentElement.scrollWidth") <= width
    browser.shape(1280, 800)


def test_a_whole_review(browser: Browser, tmp_path: Path) -> None:
    made = make(tmp_path, 1000)
    cleaned = CleanedFolder.load(made.folder)
    issues = cleaned.issues
    assert len(issues) >= 300
    with reviewing(made.folder) as (address, _):
        browser.open(address)
        assert browser.run("location.search") == ""  # the token is no longer to be seen
        assert browser.run("document.cookie") == ""  # nor for scripts
        assert browser.run("document.querySelectorAll('.card').length") == 60

        # Filters and order.
        browser.choose("class", CLASSES[1])
        browser.choose("verdict", "mislabelled")
        some = issues[(issues["given_label"] == CLASSES[1]) & (issues["verdict"] == "mislabelled")]
        browser.wait(f"document.querySelector('#where').textContent.endsWith('of {len(some)}')")
        shown = browser.run(CARDS)
        assert set(map(int, shown)) == set(some.index[:60])
        browser.choose("class", "")
        browser.choose("verdict", "")
        browser.wait(f"document.querySelector('#where').textContent.endsWith('of {len(issues)}')")

        # Decide by keys; each decision moves on to the next image.
        order = [int(number) for number in issues.index[:8]]
        usual = [n for n in order if issues.at[n, "verdict"] == "mislabelled"]
        browser.press(*["ArrowRight"] * order.index(usual[0]))
        assert chosen(browser) == usual[0]
        browser.press("a")
        here = chosen(browser)
        assert order.index(here) == order.index(usual[0]) + 1
        browser.press("k", "ArrowLeft", "o")
        browser.wait("document.querySelector('#chooser').open")
        browser.press("b", "i", "r", "Enter")  # the key b means a letter here
        browser.wait(QUIET)
        browser.press("n")
        after = order[order.index(here) + 1]
        browser.wait(QUIET)
        wanted = {
            usual[0]: ("accept", issues.at[usual[0], "suggested_label"]),
            here: ("relabel", CLASSES[1]),
            after: ("outside", ""),
        }
        assert stands(made.folder) == wanted
        browser.press("u")
        browser.wait(f"document.querySelector('#card-{after}').dataset.state === ''")
        assert chosen(browser) == after  # back on the image that is open again
        browser.press("u")  # what was kept first comes back
        browser.wait(f"document.querySelector('#card-{here}').dataset.state === 'keep'")
        wanted = {usual[0]: wanted[usual[0]], here: ("keep", issues.at[here, "given_label"])}
        assert stands(made.folder) == wanted
        assert browser.run("document.querySelector('#bar').value") == 2

        # The images beside it are those of the row; zoom and help open and close.
        browser.press("ArrowDown")
        near = issues.at[chosen(browser), "near_suggested"].split()
        sources = browser.wait(
            "(found => found.length && found)"
            "([...document.querySelectorAll('#near_suggested img')].map(i => i.src))"
        )
        assert [source.rpartition("/")[2] for source in sources] == near
        shoot(browser, "grid", *EVERY)
        browser.press("z")
        browser.wait("document.querySelector('#zoom').open")
        browser.press("ArrowRight")
        browser.wait(f"document.querySelector('#largest').src.endsWith('/{chosen(browser)}')")
        shoot(browser, "zoom")
        browser.press("z", "?")
        browser.wait("document.querySelector('#help').open")
        browser.press("a")  # does nothing there
        shoot(browser, "help")
        browser.press("Escape", "o")
        shoot(browser, "choose")
        browser.press("Escape")
        browser.choose("sort", "class")
        browser.wait("!!document.querySelector('.group')")
        shoot(browser, "class")

        # Nothing is lost by loading the page again.
        browser.call("Page.reload")
        browser.wait("document.querySelector('#tally')?.textContent.startsWith('2 of')")
        marks = browser.run(CARDS)
        assert marks[str(usual[0])] == ["accept", f"✓ {wanted[usual[0]][1]}"]
        assert marks[str(here)][0] == "keep"
        leave(browser)

    with reviewing(made.folder) as (address, running):
        # 200 decisions, and the server is killed in the middle of them.
        browser.shape(600, 400)  # less to draw
        browser.open(address)
        browser.choose("size", "240")
        browser.choose("state", "undecided")
        browser.wait("document.querySelectorAll('.card').length > 200")
        for k in range(200):
            browser.press("akn"[k % 3])
            if k > 100 and running.poll() is None and browser.run(SAVED) > 100:
                running.kill()
                running.wait()
        browser.wait(QUIET)
        marks = browser.run(CARDS)
        shown = {int(number): mark for number, mark in marks.items() if mark[0]}
        saved = {number: mark for number, mark in shown.items() if mark[0] != "failed"}
        assert len(shown) == 200
        assert 100 < len(saved) < 200
        assert "the server does not answer" in browser.run(
            "document.querySelector('#news').textContent"
        )
        shoot(browser, "failed")

    kept = stands(made.folder)
    for number, (action, mark) in saved.items():
        assert kept[number][0] == action
        assert action == "outside" or mark[2:] == kept[number][1]
    assert len(kept) <= len(saved) + len(wanted) + 6  # some may have been on their way

    with reviewing(made.folder) as (address, _):
        # A new server goes on where the old one was.
        browser.open(address)
        browser.errors.clear()  # of requests that the old one did not answer
        browser.wait(f"document.querySelector('#tally').textContent.startsWith('{len(kept)} of')")
        browser.choose("state", "undecided")
        browser.wait(
            f"document.querySelector('#where').textContent.endsWith('of {len(issues) - len(kept)}')"
        )
        first = [n for n in issues.index if n not in kept]
        assert chosen(browser) == first[0]
        browser.shape(600, 400)
        # Deciding a page of undecided ones leads to the next ones, without a gap.
        browser.press(*["k"] * 60)
        browser.wait(f"document.querySelector('.card').id === 'card-{first[60]}'")
        decided = stands(made.folder)
        assert set(decided) == {*kept, *first[:60]}
        leave(browser)

    out = tmp_path / "out"
    words = [sys.executable, "-m", "drpl", "apply", str(made.folder), "-o", str(out), "--links"]
    subprocess.run(words, check=True, capture_output=True)
    labels = {int(link.name.partition("-")[0]): link.parent.name for link in out.rglob("*.png")}
    expected = dict(made.samples["given_label"])
    for number, (action, label) in decided.items():
        if action == "outside":
            del expected[number]
        else:
            expected[number] = label
    assert labels == expected
    changed = {int(row["id"]) for row in rows(out / "audit.csv")}
    assert changed == {n for n, (action, _) in decided.items() if action != "keep"}


def test_touch_and_mouse(browser: Browser, tmp_path: Path) -> None:
    made = make(tmp_path, 60)
    issues = CleanedFolder.load(made.folder).issues
    second = int(issues.index[1])
    with reviewing(made.folder) as (address, _):
        browser.shape(390, 844)
        browser.open(address)
        browser.click(f"#card-{second}")
        assert chosen(browser) == second
        browser.click("#keep")
        browser.wait(f"document.querySelector('#card-{second}').dataset.state === 'keep'")
        browser.click(f"#card-{second}")
        browser.click("#retract")
        browser.wait(f"document.querySelector('#card-{second}').dataset.state === ''")
        browser.click("#look")
        browser.wait("document.querySelector('#zoom').open")
        browser.click("#caption")
        browser.wait("!document.querySelector('#zoom').open")
        leave(browser)
    assert stands(made.folder) == {}


def test_filters_orders_and_counts(browser: Browser, tmp_path: Path) -> None:
    """What the page's script finds, beside what pandas does; with and without a server."""
    made = make(tmp_path, 200)
    cleaned = CleanedFolder.load(made.folder)
    issues = cleaned.issues
    with DecisionLog(cleaned) as log:
        for number, action in zip(
            issues.index, ["accept", "keep", "outside", "keep"], strict=False
        ):
            log.add(make_decision(cleaned, int(number), action, "", "Ann"))
        log.undo(int(issues.index[3]), "Ann")
    active = stands(made.folder)
    actions = pd.Series({n: action for n, (action, _) in active.items()}).reindex(issues.index)
    ranks = issues["given_label"].map(CLASSES.index), issues["verdict"].map(VERDICTS.index)
    grouped = issues.assign(rank=ranks[0], kind=ranks[1])
    wanted: dict[str, pd.DataFrame] = {
        "sort: 'worst'": issues,
        "sort: 'id'": issues.sort_index(),
        "sort: 'confidence'": issues.sort_values("confidence", ascending=False, kind="stable"),
        "sort: 'class'": grouped.sort_values(["rank", "kind"], kind="stable"),
        "sort: 'id', state: 'undecided'": issues[actions.isna()].sort_index(),
        "sort: 'worst', state: 'decided'": issues[actions.notna()],
        "sort: 'worst', state: 'keep'": issues[actions == "keep"],
    }
    for column, name in (("given_label", "class"), ("suggested_label", "suggested"),
                         ("verdict", "verdict")):  # fmt: skip
        for value, some in issues.groupby(column, sort=False):
            wanted[f"sort: 'worst', {name}: {json.dumps(value)}"] = some
    both = (issues["given_label"] == CLASSES[1]) & (issues["verdict"] == "outside")
    wanted[f"sort: 'id', class: '{CLASSES[1]}', verdict: 'outside'"] = issues[both].sort_index()
    page = tmp_path / "page.html"
    write_page(cleaned, page, "Eve")
    with reviewing(made.folder) as (address, _):
        for place in (address, page.as_uri()):
            browser.open(place)
            for query, table in wanted.items():
                ids = browser.run(f"issues.select({{{query}}}).map((row) => row.id)")
                assert ids == list(table.index), (place, query)
            counts = browser.run("issues.count()")
            for kind, column in (("given", "given_label"), ("verdict", "verdict")):
                assert counts[kind] == issues[column].value_counts().to_dict()
            state = {"accept": 1, "keep": 1, "outside": 1, "decided": 3}
            assert counts["state"] == state | {"undecided": len(issues) - 3}
            assert browser.run("decisions.last().id") == int(issues.index[2])
        leave(browser)


def test_a_hundred_thousand_issues_in_the_page(browser: Browser, tmp_path: Path) -> None:
    with reviewing(make_large(tmp_path / "large", 100_000)) as (address, _):
        browser.open(address)
        for query in ("sort: 'worst'", "sort: 'class', verdict: 'outside'", "sort: 'confidence'"):
            script = (
                "(() => { const t = performance.now(); "
                f"issues.select({{{query}}}); issues.count(); return performance.now() - t; }})()"
            )
            times = [browser.run(script) for _ in range(4)]  # the first one may have to sort
            assert min(times) < 200, query
            assert max(times) < 5000, query
        browser.press("k")
        browser.wait("document.querySelector('#tally').textContent.startsWith('1 of 100000')")
        browser.errors.clear()  # its images are not there


def test_the_page_without_server(browser: Browser, tmp_path: Path) -> None:
    evil = '<img src=x onerror="document.title=1">, é'
    made = make(tmp_path, 60)
    (made.photos / "ash").rename(made.photos / evil)
    for name in ("samples.csv", "issues.csv"):
        table = (made.folder / name).read_text()
        quoted = '"' + evil.replace('"', '""') + '"'
        table = table.replace(",ash,", f",{quoted},").replace(",ash,", f",{quoted},")
        (made.folder / name).write_text(table)
    about = (made.folder / "data.json").read_text()
    (made.folder / "data.json").write_text(
        about.replace('"ash"', f'"{evil.replace(chr(34), chr(92) + chr(34))}"')
    )
    issues = CleanedFolder.load(made.folder).issues
    assert evil in set(issues["given_label"])
    page = tmp_path / "page.html"
    words = [sys.executable, "-m", "drpl", "review", str(made.folder)]
    subprocess.run([*words, "--page", str(page), "--who", "Eve"], check=True, capture_output=True)
    browser.open(page.as_uri())
    browser.wait("document.querySelectorAll('.card').length > 5")
    assert browser.run("document.title") == "Review cleaned"
    order = [int(number) for number in issues.index[:6]]
    browser.press("k", "n", "k", "u", "ArrowRight", "o")
    browser.press("<", "i", "Enter")
    browser.wait(QUIET)
    expected = {
        order[0]: ("keep", issues.at[order[0], "given_label"]),
        order[1]: ("outside", ""),
        order[3]: ("relabel", evil),
    }
    browser.choose("sort", "class")
    browser.wait("!!document.querySelector('.group')")
    browser.choose("state", "decided")
    browser.wait("document.querySelectorAll('.card').length === 3")
    shoot(browser, "file")
    browser.call("Page.reload")
    browser.wait("document.querySelector('#tally')?.textContent.startsWith('3 of')")
    assert browser.run("document.querySelectorAll('img[src=x]').length") == 0
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.click("#save")
    wait_for(tmp_path / "decisions.csv")
    leave(browser)
    taken = subprocess.run(
        [*words, "--import", str(tmp_path / "decisions.csv")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "took in 5 decisions" in taken.stdout
    assert stands(made.folder) == expected
    assert {row["who"] for row in rows(made.folder / "decisions.csv")} == {"Eve"}
