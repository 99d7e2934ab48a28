"""A real browser without a window, driven through its DevTools."""

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
CODES = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Enter": 13,
    "Escape": 27,
}


class Browser:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.numbers = itertools.count(1)
        self.errors: list[str] = []  # what the console complained about
        self.requests: list[str] = []  # the addresses that were asked for
        for area in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{area}.enable")

    def call(self, method: str, **wanted: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": wanted}))
        while True:
            answer = json.loads(self.socket.recv(timeout=120))
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return dict(answer["result"])
            self.note(answer.get("method"), answer.get("params", {}))

    def note(self, event: str | None, about: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(str(about["exceptionDetails"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.errors.append(str(about["args"]))

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 120) -> Any:
        """Wait until an expression holds."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never came: {script}; {self.errors}"
            time.sleep(0.03)
        return value

    def open(self, address: str, ready: str = "#tally") -> None:
        """Go there and wait until the element `ready` says something."""
        self.call("Page.navigate", url=address)
        self.wait(
            "document.readyState === 'complete' && "
            f"!!document.querySelector({json.dumps(ready)})?.textContent"
        )

    def press(self, *keys: str) -> None:
        """Keys as a person presses them."""
        for key in keys:
            code = CODES.get(key) or ord(key.upper())
            about = {"key": key, "windowsVirtualKeyCode": code}
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def click(self, selector: str) -> None:
        """The mouse on the middle of an element."""
        x, y = self.run(
            f"(b => [b.left + b.width / 2, b.top + b.height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose(self, name: str, value: str) -> None:
        """Set one of the filters."""
        self.run(
            f"(() => {{ const s = document.getElementById({json.dumps(name)}); "
            f"s.value = {json.dumps(value)}; s.dispatchEvent(new Event('change')); }})()"
        )

    def shape(self, width: int, height: int, *, dark: bool = False) -> None:
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def shoot(self, path: Path, **wanted: Any) -> None:
        """Save what is seen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **wanted)["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile."""
    words = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    words += ["--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    log = profile.with_suffix(".log").open("wb")
    with log, subprocess.Popen([*words, "about:blank"], stdout=log, stderr=log) as running:
        try:
            port = wait_for(profile / "DevToolsActivePort").splitlines()[0]
            with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
                tabs = json.load(answer)
            address = next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"]
            with connect(address, max_size=None) as socket:
                yield Browser(socket)
        finally:
            running.terminate()
            running.wait(30)


def wait_for(path: Path, seconds: float = 60) -> str:
    """The lines of a file, once it is there."""
    end = time.monotonic() + seconds
    while not path.exists() or "\n" not in path.read_text():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.05)
    return path.read_text()
