"""The server as it runs, asked in words that no well-behaved client would send."""

import http.client
import io
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
from PIL import Image

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import DecisionLog, read_decisions
from drpl.cleaning.review.server import LONGEST, Auth, build_server, open_socket
from drpl.errors import ConfigError
from tests.cli.test_cli import Mistake
from tests.conftest import Command
from tests.support.cleaned import CLASSES, Made, add_found, make, make_large


@dataclass
class Answer:
    code: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Client:
    """Sends exactly what it is asked to."""

    auth: Auth
    cleaned: CleanedFolder
    more: dict[str, str] = field(default_factory=dict)

    def ask(
        self, path: str, content: Any = None, *, method: str = "", **changed: str | None
    ) -> Answer:
        home = f"127.0.0.1:{self.auth.port}"
        headers: dict[str, str | None] = {
            "Host": home,
            "Cookie": f"{self.auth.cookie}={self.auth.token}",
        }
        data = None
        if content is not None:
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            headers |= {"Origin": f"http://{home}", "Content-Type": "application/json"}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        wire = http.client.HTTPConnection("127.0.0.1", self.auth.port, timeout=30)
        wire.putrequest(
            method or ("GET" if data is None else "POST"),
            path,
            skip_host=True,
            skip_accept_encoding=True,
        )
        for name, value in headers.items():
            if value is not None:
                wire.putheader(name, value)
        if data is not None:
            wire.putheader("Content-Length", str(len(data)))
        wire.endheaders(data)
        reply = wire.getresponse()
        answer = Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        wire.close()
        return answer


@contextmanager
def serving(folder: Path) -> Iterator[Client]:
    cleaned = CleanedFolder.load(folder)
    with DecisionLog(cleaned) as log, open_socket(0) as taken:
        auth = Auth(taken.getsockname()[1])
        running = build_server(log, "Ann", auth)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield Client(auth, cleaned)
        finally:
            running.should_exit = True
            thread.join(20)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Made:
    where = tmp_path_factory.mktemp("served")
    (where / "secret.png").write_bytes(b"secret")
    return make(where, 60)


@pytest.fixture(scope="module")
def client(photos: Made) -> Iterator[Client]:
    with serving(photos.folder) as running:
        yield running


def test_without_the_token_nothing_is_said(client: Client) -> None:
    for path in ("/", "/api/issues", "/api/samples", "/api/decisions", "/image/small/1", "/x"):
        for cookie in (None, "", f"{client.auth.cookie}=wrong", "token=x", "drpl-review-é=1"):
            answer = client.ask(path, Cookie=cookie)
            assert answer.code == 403
            assert b"Refused" in answer.content
            assert client.auth.token.encode() not in answer.content
    number = int(client.cleaned.issues.index[0])
    assert client.ask("/api/decide", {"id": number, "action": "keep"}, Cookie=None).code == 403
    assert client.ask("/?token=wrong", Cookie=None).code == 403
    # The token opens the page and nothing else: it must not be in the addresses of images.
    assert client.ask(f"/api/issues?token={client.auth.token}", Cookie=None).code == 403
    assert read_decisions(client.cleaned) == []


def test_the_first_visit_leaves_a_strict_cookie(client: Client) -> None:
    answer = client.ask(f"/?token={client.auth.token}", Cookie=None)
    assert answer.code == 200
    cookie = answer.headers["set-cookie"]
    assert f"{client.auth.cookie}={client.auth.token}" in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert client.auth.token.encode() not in answer.content
    assert "set-cookie" not in client.ask("/").headers


def test_a_single_use_token_is_good_once(client: Client) -> None:
    address = client.auth.make_address(once=True)
    assert client.auth.token not in address
    path = address[address.index("/?") :]
    assert client.ask(path, Cookie=None).code == 200
    assert client.ask(path, Cookie=None).code == 403


def test_only_by_its_own_name(client: Client) -> None:
    """Another name that leads to this machine belongs to another site (DNS rebinding)."""
    port = client.auth.port
    for host in (
        *(None, "", "evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}"),
        *(f"[::1]:{port}", f"0.0.0.0:{port}", f"localhost.evil.example:{port}"),
    ):
        answer = client.ask("/api/issues", Host=host)
        assert answer.code in (400, 403), host
        assert b"data" not in answer.content
    assert client.ask("/api/issues", Host=f"localhost:{port}").code == 200


def test_other_sites_cannot_decide(client: Client) -> None:
    wish = {"id": int(client.cleaned.issues.index[0]), "action": "keep"}
    port = client.auth.port
    for origin in (
        *(None, "null", "http://evil.example", f"https://127.0.0.1:{port}"),
        *("http://127.0.0.1", f"http://127.0.0.1:{port}.evil.example"),
    ):
        for action in ("keep", "undo"):
            answer = client.ask("/api/decide", wish | {"action": action}, Origin=origin)
            assert answer.code == 403, origin
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert client.ask("/api/decide", wish, Content_Type=kind).code == 415
    assert client.ask("/api/decide").code == 405  # a GET changes nothing
    assert read_decisions(client.cleaned) == []


def test_only_this_machine_is_listened_to() -> None:
    with open_socket(0) as taken:
        assert taken.getsockname()[0] == "127.0.0.1"
        with (
            pytest.raises(ConfigError, match="cannot be used"),
            open_socket(taken.getsockname()[1]),
        ):
            pass


def test_headers_keep_everything_inside(client: Client) -> None:
    for path in ("/", "/api/issues", "/image/small/0", "/none", "/image/small/4000"):
        headers = client.ask(path).headers
        rules = headers["content-security-policy"]
        assert rules.startswith("default-src 'none';")
        assert "unsafe" not in rules
        assert "http" not in rules
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        cached = "private, no-cache" if path == "/image/small/0" else "no-store"
        assert headers["cache-control"] == cached


CLIMBS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..%252f..%252fetc%252fpasswd",
    "..\\..\\etc\\passwd",
    "..%5c..%5cetc%5cpasswd",
    "....//....//etc/passwd",
    "%c0%ae%c0%ae/etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "1/../../../../etc/passwd",
    "1%00.png",
    "ash/tree%200.png",
    "../secret.png",
    "-1",
    "1.0",
    "1e1",
    "0x1",
    "٣",
    "4000",
    "9" * 400,
]


@pytest.mark.parametrize("climb", CLIMBS)
@pytest.mark.parametrize("start", ["/", "/image/", "/image/small/", "/image/large/", "//", "/api/"])
def test_no_path_leads_anywhere(client: Client, start: str, climb: str) -> None:
    path = quote(start + climb, safe="/%:.\\")
    answer = client.ask(path)
    assert answer.code == 404, path
    assert b"root:" not in answer.content
    assert b"secret" not in answer.content


def test_images_are_pixels_of_listed_files(client: Client, photos: Made) -> None:
    answer = client.ask("/image/small/5")
    assert answer.code == 200
    assert answer.headers["content-type"] == "image/png"
    image = Image.open(io.BytesIO(answer.content))
    with Image.open(photos.photos / photos.samples.at[5, "path"]) as original:
        assert image.tobytes() == original.convert("RGB").tobytes()
    assert client.ask("/image/huge/5").code == 404
    tag = answer.headers["etag"]
    assert client.ask("/image/small/5", If_None_Match=tag).code == 304
    assert client.ask("/image/large/5", If_None_Match=tag).code == 200
    assert client.ask("/image/small/6", If_None_Match=tag).code == 200


def test_test_images_only_where_they_are_near_duplicates(tmp_path: Path) -> None:
    made = make(tmp_path)
    add_found(made)
    with serving(made.folder) as asked:
        answer = asked.ask("/image/small/test/7")
        assert answer.code == 200
        image = Image.open(io.BytesIO(answer.content))
        with Image.open(made.photos / "held out.png") as original:
            assert image.tobytes() == original.convert("RGB").tobytes()
        for path in ("/image/huge/test/7", "/image/small/test/8", "/image/small/test/x"):
            assert asked.ask(path).code == 404
    listed = (made.folder / "duplicates.csv").read_text()
    (made.folder / "duplicates.csv").write_text(listed.replace("held out.png", "../x.png"))
    with serving(made.folder) as asked:
        assert asked.ask("/image/small/test/7").code == 404


def test_decisions_on_near_duplicates_and_outliers(tmp_path: Path) -> None:
    made = make(tmp_path)
    add_found(made)
    with serving(made.folder) as asked:
        page = asked.ask("/").content.decode()
        found = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])["found"]
        assert [row["kind"] for row in found["pairs"]][:2] == ["conflict", "conflict"]
        assert found["pairs"][2]["second_p_noisy"] is None
        first, second = (found["pairs"][0][f"{side}_id"] for side in ("first", "second"))
        assert first not in asked.cleaned.issues.index
        wanted = {"ids": [first, second], "action": "relabel", "label": CLASSES[0]}
        assert asked.ask("/api/decide", wanted).code == 200
        lines = read_decisions(asked.cleaned)
        assert [(line.id, line.action) for line in lines] == [(first, "keep"), (second, "relabel")]
        assert asked.ask("/api/forecast").code == 200


def test_every_image_can_be_seen_and_decided_on(client: Client, tmp_path: Path) -> None:
    table = client.ask("/api/samples").json
    assert table["index"] == list(client.cleaned.samples.index)
    assert table["columns"] == ["path", "p_noisy", "confidence", "given", "suggested"]
    made = make(tmp_path)
    with serving(made.folder) as asked:
        cleaned = asked.cleaned
        outside = int(cleaned.issues.index[cleaned.issues["verdict"] == "outside"][0])
        other = int(cleaned.issues.index[cleaned.issues["verdict"] == "mislabelled"][0])
        clean = int(min(set(cleaned.samples.index) - set(cleaned.issues.index)))
        assert (
            asked.ask("/api/decide", {"ids": [outside, other, clean], "action": "follow"}).code
            == 200
        )
        lines = read_decisions(cleaned)
        assert [(line.id, line.action) for line in lines] == [
            (outside, "outside"), (other, "accept"), (clean, "keep"),
        ]  # fmt: skip
        assert {line.why.partition("; ")[2] for line in lines} == {"for 3 at once"}
        # One that is not there spoils all of them.
        wanted = {"ids": [other, 4000], "action": "keep"}
        assert asked.ask("/api/decide", wanted).code == 400
        assert read_decisions(cleaned) == lines


def test_odd_and_broken_files(tmp_path: Path) -> None:
    made = make(tmp_path)
    paths = [made.photos / path for path in made.samples["path"]]
    Image.new("I;16", (300, 200), 40_000).save(paths[0], "TIFF")
    Image.new("CMYK", (3000, 10)).save(paths[1], "JPEG")
    paths[2].write_bytes(b"no image")
    paths[3].unlink()
    paths[4].write_bytes(paths[5].read_bytes()[:60])
    (tmp_path / "outside.png").write_bytes(paths[6].read_bytes())
    paths[6].unlink()
    paths[6].symlink_to(tmp_path / "outside.png")  # sets of links are common
    paths[7].unlink()
    paths[7].symlink_to("/etc/passwd")
    paths[8].unlink()
    paths[8].mkdir()
    with serving(made.folder) as client:
        answers = [client.ask(f"/image/small/{k}") for k in range(9)]
    assert [answer.code for answer in answers] == [200] * 9
    pictures = [Image.open(io.BytesIO(answer.content)) for answer in answers]
    assert pictures[0].size == (256, 171)
    assert pictures[0].getpixel((9, 9)) == pytest.approx(40_000 >> 8, abs=1)
    assert pictures[1].size[0] == 256
    sign = answers[2].content
    assert [answer.content == sign for answer in answers] == [
        *(False, False, True, True, True, False, False, True, True)
    ]
    assert pictures[6].size == (48, 40)


def test_nothing_of_a_file_but_its_pixels(tmp_path: Path) -> None:
    made = make(tmp_path)
    path = made.photos / made.samples.at[0, "path"]
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    Image.new("RGB", (200, 200)).save(path, "PNG", exif=exif, icc_profile=b"where I live")
    with serving(made.folder) as client:
        for size in ("small", "large"):
            assert b"where I live" not in client.ask(f"/image/{size}/0").content


def test_all_issues_for_the_page(client: Client) -> None:
    issues = client.cleaned.issues
    table = client.ask("/api/issues").json
    assert table["index"] == list(issues.index)  # worst first
    for cells, issue in zip(table["data"], issues.itertuples(), strict=True):
        row = dict(zip(table["columns"], cells, strict=True))
        assert CLASSES[row["given"]] == issue.given_label
        assert CLASSES[row["suggested"]] == issue.suggested_label
        for name in ("path", "p_noisy", "confidence", "verdict", "near_given", "near_suggested"):
            assert row[name] == getattr(issue, name)


def test_decide_and_undo(tmp_path: Path) -> None:
    made = make(tmp_path)
    with serving(made.folder) as client:
        first, second = (int(number) for number in client.cleaned.issues.index[:2])
        assert client.ask("/api/decisions").json == {"start": 0, "lines": []}
        answer = client.ask("/api/decide", {"id": first, "action": "keep", "since": 0}).json
        (line,) = answer["lines"]
        assert (line["id"], line["action"], line["who"]) == (first, "keep", "Ann")
        assert line["label"] == client.cleaned.issues.at[first, "given_label"]
        assert len(read_decisions(client.cleaned)) == 1
        wish = {"id": second, "action": "relabel", "label": CLASSES[1], "since": 1}
        answer = client.ask("/api/decide", wish).json
        assert answer["start"] == 1
        assert [line["label"] for line in answer["lines"]] == [CLASSES[1]]  # only what is new
        assert len(client.ask("/api/decisions?since=1").json["lines"]) == 1
        assert client.ask("/api/decisions?since=9").json["lines"] == []
        for number in (second, first):
            answer = client.ask("/api/decide", {"id": number, "action": "undo"}).json
            assert answer["lines"][-1]["action"] == "undo"
            again = client.ask("/api/decide", {"id": number, "action": "undo"})
            assert again.code == 400
            assert "to take back" in again.json["error"]
        lines = client.ask("/api/decisions").json["lines"]
        assert [line["action"] for line in lines] == ["keep", "relabel", "undo", "undo"]
    with serving(made.folder) as client:  # a new server knows what was decided before
        assert client.ask("/api/decisions").json["lines"] == lines


def test_requests_that_make_no_sense(client: Client) -> None:
    number = int(client.cleaned.issues.index[0])
    for content in (
        *(b"", b"{", b"[]", b"1", b"[" * 5000, b'{"id": NaN}'),
        *({"id": str(number), "action": "keep"}, {"id": True, "action": "keep"}),
        *({"id": number}, {"id": number, "action": "undo"}, {"id": number, "action": "drop"}),
        {"id": number, "action": "keep", "since": "0"},
        {"id": number, "action": "relabel", "label": ["ash"]},
        {"id": number, "action": "relabel", "label": "oak"},
        {"id": number, "action": "relabel", "label": "\ud800"},
        *({"id": 4000, "action": "keep"}, {"id": 10**30, "action": "keep"}),
    ):
        answer = client.ask("/api/decide", content)
        assert answer.code == 400, content
        assert answer.json["error"]
    for since in ("-1", "one", "1e9", "", "\u00b2"):
        assert client.ask(f"/api/decisions?since={quote(since)}").code == 400, since
    assert client.ask("/api/decide", b" " * (LONGEST + 1)).code == 413
    assert read_decisions(client.cleaned) == []


def test_a_hundred_thousand_issues(tmp_path: Path) -> None:
    with serving(make_large(tmp_path / "large", 100_000)) as client:
        for path, content, most in (
            ("/api/issues", None, 0.5),  # all of them, once
            ("/api/samples", None, 0.5),
            ("/api/decisions?since=0", None, 0.2),
            ("/api/decide", {"id": 99_999, "action": "keep"}, 0.2),
        ):
            times = []
            for _ in range(4):  # the machine may be busy with something else
                began = time.monotonic()
                assert client.ask(path, content).code == 200
                times.append(time.monotonic() - began)
            assert min(times) < most, path


HALF = b"POST /api/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"


@pytest.mark.parametrize("sent", [b"", b"GET / HTT", HALF])
def test_half_a_request_does_not_hold_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("drpl.cleaning.review.connections.PATIENCE", 0.3)
    with serving(make(tmp_path, 60).folder) as client:
        with socket.create_connection(("127.0.0.1", client.auth.port), timeout=30) as wire:
            wire.sendall(sent)
            while wire.recv(1024):  # perhaps a refusal, then the end
                pass
        assert client.ask("/api/issues").code == 200


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of each connection are a file of this process."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 4096:
        pytest.skip("too few files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
def test_a_thousand_at_once_are_answered_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drpl.cleaning.review.server.MOST", 60)
    with serving(make(tmp_path, 60).folder) as client, ExitStack() as opened:
        address = ("127.0.0.1", client.auth.port)
        wires = [
            opened.enter_context(socket.create_connection(address, timeout=60)) for _ in range(1000)
        ]
        for wire in wires:
            wire.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        codes = [int(wire.recv(4096).split(b" ")[1]) for wire in wires]
        assert set(codes) <= {403, 503}  # 403: no token was sent
        assert codes.count(503) > 1000 - 60  # how many come early enough depends on the machine
        for wire in wires:
            wire.close()
        time.sleep(0.2)
        assert client.ask("/api/issues").code == 200


def test_the_end_does_not_wait_for_open_connections(tmp_path: Path) -> None:
    with ExitStack() as opened:
        with serving(make(tmp_path, 60).folder) as client:
            address = ("127.0.0.1", client.auth.port)
            for _ in range(20):
                wire = opened.enter_context(socket.create_connection(address, timeout=30))
                wire.sendall(b"GET / H")
            assert client.ask("/api/issues").code == 200
            began = time.monotonic()
        assert time.monotonic() - began < 10


def test_the_page_needs_nothing_from_outside(client: Client) -> None:
    page = client.ask("/").content.decode()
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    assert not re.findall(r"https?://", page)


def test_without_the_extra(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path)
    for name in [name for name in sys.modules if name.startswith("drpl.cleaning.review.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    assert "pip install 'drpl[review]'" in mistake("review", made.folder, "--no-open")


def test_a_port_that_is_taken(mistake: Mistake, tmp_path: Path) -> None:
    made = make(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} cannot be used" in mistake("review", made.folder, "--port", port)


@pytest.mark.parametrize(
    ("listed", "first"),
    [(0, "No label is listed; look at any image at"), (1, "1 issue, 0 decided; review it at")],
)
def test_how_much_there_is_to_review(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, listed: int, first: str
) -> None:
    made = make(tmp_path)
    path = made.folder / "issues.csv"
    pd.read_csv(path, keep_default_na=False).head(listed).to_csv(path, index=False)
    stopped = SimpleNamespace(run=lambda **_: None)
    monkeypatch.setattr("drpl.cleaning.review.server.build_server", lambda *_: stopped)
    answer = command("review", made.folder, "--no-open")
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[0] == first
    assert ("0 of 1 issues are decided" in answer.out) == bool(listed)
