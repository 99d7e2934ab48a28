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

from drpl.data.download import obtain
from drpl.data.locate import PLACES
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import make_cifar10

FOLDER = "cifar-10-batches-py"
Archive = tuple[str, str]  # address and sum


class Server(ThreadingHTTPServer):
    """Serves one file, as well or badly as `mood` says."""

    content = b""
    mood = "well"
    asked = 0


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body, mood = self.server.content, self.server.mood
        self.server.asked += 1
        if mood == "refuse":
            self.send_error(403)
            return
        self.send_response(200)
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
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def archive(server: Server, tmp_path: Path) -> Archive:
    """A small CIFAR-10, packed."""
    make_cifar10(tmp_path / "made" / FOLDER)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(tmp_path / "made" / FOLDER, FOLDER)
    server.content = packed.getvalue()
    md5 = hashlib.md5(server.content).hexdigest()
    url = f"http://127.0.0.1:{server.server_port}/cifar.tar.gz"
    return url, md5


def test_the_set_is_fetched_once(
    server: Server, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        PLACES, "cifar10", replace(PLACES["cifar10"], url=archive[0], md5=archive[1])
    )
    read_options = ReadOptions(data_dir=tmp_path / "new" / "data", download=True)
    for _ in range(2):
        assert len(load("cifar10", read_options).train) == 100
    assert server.asked == 1
    names = sorted(path.name for path in (tmp_path / "new" / "data").iterdir())
    assert names == [f".{FOLDER}.lock", FOLDER, "cifar.tar.gz"]


def test_a_download_that_broke_off_begins_anew(
    server: Server, archive: Archive, tmp_path: Path
) -> None:
    server.mood = "break off"
    half = len(server.content) // 2
    with pytest.raises(DataError, match=f"broke off after {half:,} bytes; try later, or put"):
        obtain(*archive, tmp_path / FOLDER)
    assert not list(tmp_path.glob("*cifar*"))
    server.mood = "well"
    obtain(*archive, tmp_path / FOLDER)
    assert (tmp_path / FOLDER / "test_batch").is_file()


def test_a_damaged_file_that_is_there_is_fetched_again(
    server: Server, archive: Archive, tmp_path: Path
) -> None:
    (tmp_path / "cifar.tar.gz").write_bytes(server.content[:-1])
    obtain(*archive, tmp_path / FOLDER)
    assert (tmp_path / "cifar.tar.gz").read_bytes() == server.content
    (tmp_path / FOLDER / "test_batch").unlink()
    (tmp_path / FOLDER).rename(tmp_path / "elsewhere")
    obtain(*archive, tmp_path / FOLDER)
    assert server.asked == 1


def test_a_damaged_download_is_not_kept(server: Server, archive: Archive, tmp_path: Path) -> None:
    server.mood = "corrupt"
    with pytest.raises(DataError, match="came out damaged"):
        obtain(*archive, tmp_path / FOLDER)
    assert not list(tmp_path.glob("cifar*"))


def test_refusals(server: Server, archive: Archive, tmp_path: Path) -> None:
    server.mood = "refuse"
    with pytest.raises(DataError, match=r"cannot fetch .*403: Forbidden; try later, or put"):
        obtain(*archive, tmp_path / FOLDER)
    with pytest.raises(DataError, match="cannot fetch"):
        obtain("http://127.0.0.1:9/cifar.tar.gz", archive[1], tmp_path / FOLDER)


def test_an_archive_that_reaches_out_of_its_folder(
    server: Server, archive: Archive, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    server.content = packed.getvalue()
    md5 = hashlib.md5(server.content).hexdigest()
    with pytest.raises(DataError, match="cannot unpack"):
        obtain(archive[0], md5, tmp_path / "home" / FOLDER)
    assert not (tmp_path / "outside").exists()
