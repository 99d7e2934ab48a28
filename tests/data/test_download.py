"""Downloads from a server of our own that breaks off, corrupts and refuses."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from drpl.data.download import Archive, obtain
from drpl.data.readers import cifar
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import make_cifar10


class Server(ThreadingHTTPServer):
    """Serves one file, as well or badly as `mood` says."""

    content = b""
    mood = "well"
    asked: list[str | None]


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted, mood = self.headers["Range"], self.server.mood
        self.server.asked.append(wanted)
        if mood == "refuse":
            self.send_error(403)
            return
        begin = 0 if wanted is None or mood == "no ranges" else int(wanted[6:-1])
        if begin >= len(self.server.content):
            self.send_error(416)
            return
        body = self.server.content[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if mood == "corrupt":
            body = body[:-1] + b"?"
        self.wfile.write(body[: len(body) // 2] if mood == "break off" else body)

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server(("127.0.0.1", 0), Answers) as server:
        server.asked = []
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def archive(server: Server, tmp_path: Path) -> Archive:
    """A small CIFAR-10, packed."""
    make_cifar10(tmp_path / "made" / "cifar-10-batches-py")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(tmp_path / "made" / "cifar-10-batches-py", "cifar-10-batches-py")
    server.content = packed.getvalue()
    md5 = hashlib.md5(server.content).hexdigest()
    url = f"http://127.0.0.1:{server.server_port}/cifar.tar.gz"
    return Archive(url, md5, "cifar-10-batches-py")


def test_the_set_is_fetched_once(
    server: Server, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar, "ARCHIVE10", archive)
    read_options = ReadOptions(data_dir=tmp_path / "new" / "data", download=True)
    for _ in range(2):
        assert len(load("cifar10", read_options).train) == 100
    assert server.asked == [None]
    names = sorted(path.name for path in (tmp_path / "new" / "data").iterdir())
    assert names == [".cifar.tar.gz.lock", "cifar-10-batches-py", "cifar.tar.gz"]


@pytest.mark.parametrize("mood", ["well", "no ranges"])
def test_it_goes_on_where_it_broke_off(
    server: Server, archive: Archive, tmp_path: Path, mood: str
) -> None:
    server.mood = "break off"
    with pytest.raises(DataError, match=r"broke off after [\d,]+ bytes.*run the same"):
        obtain(archive, tmp_path)
    half = (tmp_path / "cifar.tar.gz.part").stat().st_size
    assert half == len(server.content) // 2
    server.mood = mood
    obtain(archive, tmp_path)
    assert server.asked == [None, f"bytes={half}-"]
    assert not (tmp_path / "cifar.tar.gz.part").exists()


def test_what_was_all_there_is_only_checked(
    server: Server, archive: Archive, tmp_path: Path
) -> None:
    (tmp_path / "cifar.tar.gz.part").write_bytes(server.content)
    obtain(archive, tmp_path)
    assert (tmp_path / "cifar-10-batches-py" / "test_batch").is_file()


def test_a_damaged_file_is_deleted(server: Server, archive: Archive, tmp_path: Path) -> None:
    server.mood = "corrupt"
    with pytest.raises(DataError, match="came out damaged"):
        obtain(archive, tmp_path)
    assert not list(tmp_path.glob("cifar*"))


def test_refusals(server: Server, archive: Archive, tmp_path: Path) -> None:
    server.mood = "refuse"
    with pytest.raises(DataError, match=r"cannot fetch .*403 Forbidden; try later, or put"):
        obtain(archive, tmp_path)
    nobody = replace(archive, url="http://127.0.0.1:9/cifar.tar.gz")
    with pytest.raises(DataError, match="cannot fetch"):
        obtain(nobody, tmp_path)


def test_an_archive_that_reaches_out_of_its_folder(
    server: Server, archive: Archive, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    server.content = packed.getvalue()
    with pytest.raises(DataError, match="cannot unpack"):
        obtain(replace(archive, md5=hashlib.md5(server.content).hexdigest()), tmp_path / "home")
    assert not (tmp_path / "outside").exists()
