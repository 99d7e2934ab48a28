"""Fixtures: a real browser without a window, and a tab that must stay quiet."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = (
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing but this machine
)
LOCAL = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:")
PATIENCE = 60_000  # milliseconds
expect.set_options(timeout=PATIENCE)


class Tab:
    """A page, what its console complained about and which addresses it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        self._devtools = page.context.new_cdp_session(page)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} {message.location}")

    def open(self, address: str) -> None:
        """Go there and forget what the last page said and asked for."""
        self.page.goto("about:blank")
        self.errors.clear()
        self.requests.clear()
        self.page.goto(address)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Another screen; a narrow one is a phone's."""
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        self.page.set_viewport_size({"width": width, "height": height})
        phone = width < 600  # Playwright decides this when a tab opens, DevTools at any time
        screen = {"width": width, "height": height, "mobile": phone}
        self._devtools.send(
            "Emulation.setDeviceMetricsOverride", screen | {"deviceScaleFactor": 1 + phone}
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.page.evaluate(script)

    def wait(self, script: str) -> None:
        """Wait until an expression holds; the pages' own rules forbid Playwright's way to do so."""
        end = time.monotonic() + PATIENCE / 1000
        while not self.run(script):
            assert time.monotonic() < end, f"never came: {script}; {self.errors}"
            self.page.wait_for_timeout(30)

    def shoot(self, path: Path) -> None:
        """Save what is seen."""
        self.page.screenshot(path=path)

    def check(self) -> None:
        """The console is empty, and no request has left this machine."""
        self.page.evaluate("0")  # what has happened until now is reported before the answer
        assert self.errors == []
        assert [one for one in self.requests if not one.startswith(LOCAL)] == []


@pytest.fixture(scope="module")  # while it runs, nobody else may start an event loop
def chromium() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as browser,
    ):
        yield browser


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Tab]:
    """An empty tab of usual size."""
    with chromium.new_context() as context:
        tab = Tab(context.new_page())
        tab.resize(1280, 800)
        yield tab
        tab.check()
