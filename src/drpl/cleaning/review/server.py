"""The review page's server: for this machine, this browser and this folder only."""

import json
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from drpl.cleaning.review.decisions import DecisionLog, made
from drpl.cleaning.review.page import described, filled, template
from drpl.cleaning.review.pictures import picture
from drpl.cleaning.review.table import Query, Table, shown
from drpl.errors import ConfigError, DataError, DrplError, StorageError
from drpl.files import digest

HOME = "127.0.0.1"
SIDES = {"small": 256, "large": 1600}  # pixels a side
LONGEST = 10_000  # bytes of a request
HEADERS = {
    "Content-Security-Policy": f"{template().rules}; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Auth:
    """Who may come in: who knows the token, and asks by the server's own name.

    The token is in the address that the command prints. The first visit leaves it in a cookie
    that no script can read and that no other site's request carries.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.token = secrets.token_urlsafe(32)
        self.tickets: set[str] = set()  # as good as the token, once

    def address(self, *, once: bool = False) -> str:
        """What to open. A program's words can be seen by everyone on a machine: those that start
        a browser carry a ticket that is void as soon as it has been used."""
        token = secrets.token_urlsafe(32) if once else self.token
        if once:
            self.tickets.add(token)
        return f"http://{HOME}:{self.port}/?token={token}"

    @property
    def cookie(self) -> str:
        """Its name; browsers do not tell the cookies of two ports apart."""
        return f"drpl-review-{self.port}"

    def refusal(self, request: Request) -> str | None:
        """Why a request may not come in."""
        names = [f"{name}:{self.port}" for name in (HOME, "localhost")]
        if request.headers.get("host") not in names:
            return "this server answers to its own address only"  # another name led here
        known = same(request.cookies.get(self.cookie), self.token) or self.ticket(request)
        if not known:
            return "open the address that `drpl review` printed"
        origins = [f"http://{name}" for name in names]
        if request.method not in ("GET", "HEAD") and request.headers.get("origin") not in origins:
            return "another site may not decide here"
        return None

    def ticket(self, request: Request) -> str | None:
        """What a first visit shows, if it is good."""
        shown = request.query_params.get("token") if request.url.path == "/" else None
        return next((good for good in (self.token, *self.tickets) if same(shown, good)), None)


def same(shown: str | None, right: str) -> bool:
    """Whether two secrets are equal; takes as long for every wrong one."""
    return shown is not None and secrets.compare_digest(shown.encode(), right.encode())


class AuthMiddleware:
    """Lets in whom the door lets in, and sends the headers that keep the rest out."""

    def __init__(self, app: ASGIApp, door: Auth) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self.door.refusal(Request(scope))
        app = PlainTextResponse(f"Refused: {refusal}.", 403) if refusal else self.app
        await app(scope, receive, sealed)


class ReviewAPI:
    """The answers to the page's requests."""

    def __init__(self, book: DecisionLog, who: str, door: Auth) -> None:
        self.book, self.who, self.door = book, who, door
        self.cleaned = book.cleaned
        self.table = Table(book.cleaned, book.standing)

    async def page(self, request: Request) -> Response:
        """The page itself; a first visit gets the cookie.

        Without a redirection: a browser that was sent here by another program or site would not
        carry a strict cookie through one. The page takes the token out of the address.
        """
        response = HTMLResponse(filled("", described(self.cleaned, self.who)))
        if ticket := self.door.ticket(request):
            self.door.tickets.discard(ticket)
            response.set_cookie(
                self.door.cookie, self.door.token, httponly=True, samesite="strict", path="/"
            )
        return response

    def issues(self, request: Request) -> Response:
        """Some of the issues."""
        ask = request.query_params
        size = number(ask.get("size"), Query.size)
        query = Query(
            given=ask.get("class") or None,
            suggested=ask.get("suggested") or None,
            verdict=ask.get("verdict") or None,
            state=ask.get("state") or None,
            sort=ask.get("sort") or Query.sort,
            start=number(ask.get("start"), number(ask.get("page"), 0) * size),
            size=size,
        )
        return JSONResponse(self.table.page(query))

    def progress(self, _: Request) -> Response:
        """How far the review is, and how many issues are of each kind."""
        return JSONResponse(self.table.progress() | {"counts": self.table.counts()})

    async def decide(self, request: Request) -> Response:
        """Take a decision; the answer means that it is on the disk."""
        asked = await body(request)
        chosen, action, label = (asked.get(key) for key in ("id", "action", "label"))
        if type(chosen) is not int or not isinstance(action, str) or action == "undo":
            raise DataError("wanted are an id and an action")
        if not isinstance(label, str | None):
            raise DataError("the label must be a text")
        decision = made(self.cleaned, chosen, action, label or "", self.who)
        await run_in_threadpool(self.book.add, decision)
        return self.state(chosen)

    async def undo(self, request: Request) -> Response:
        """Take back the decision on an image, or the last of all."""
        chosen = (await body(request)).get("id")
        if chosen is not None and type(chosen) is not int:
            raise DataError("the id must be a number")
        taken = await run_in_threadpool(self.book.undo, chosen, self.who)
        return self.state(taken.id if taken else None)

    def state(self, chosen: int | None) -> Response:
        """What stands on an image now."""
        if chosen is None:
            return JSONResponse({"id": None, "progress": self.table.progress()})
        self.table.refresh(chosen)
        stands = shown(self.book.standing.on(chosen))
        return JSONResponse({"id": chosen, "decision": stands, "progress": self.table.progress()})

    def image(self, request: Request) -> Response:
        """An image by its id; browsers keep it, and ask whether it is still the same."""
        chosen, side = request.path_params["id"], SIDES.get(request.path_params["size"])
        if side is None or chosen not in self.cleaned.samples.index:
            raise HTTPException(404)
        path = self.cleaned.image(chosen)
        tag = f'"{version(path, side)}"'
        headers = {"Cache-Control": "private, no-cache", "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        content, kind = picture(path, side)
        return Response(content, media_type=kind, headers=headers)


def application(book: DecisionLog, who: str, door: Auth) -> ASGIApp:
    """The server's application, behind its door."""
    desk = ReviewAPI(book, who, door)
    routes = [
        Route("/", desk.page),
        Route("/api/issues", desk.issues),
        Route("/api/progress", desk.progress),
        Route("/api/decide", desk.decide, methods=["POST"]),
        Route("/api/undo", desk.undo, methods=["POST"]),
        Route("/image/{size}/{id:int}", desk.image),
    ]
    return AuthMiddleware(Starlette(routes=routes, exception_handlers={DrplError: on_error}), door)


async def on_error(_: Request, error: Exception) -> Response:
    """A mistake in one sentence."""
    return JSONResponse({"error": str(error)}, 507 if isinstance(error, StorageError) else 400)


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415)
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LONGEST:
            raise HTTPException(413)
    try:
        asked = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise DataError("wanted is a JSON object")
    return asked


def number(text: str | None, default: int) -> int:
    """A number from 0 on that an address holds."""
    if not text:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise DataError(f"{text!r} is no number")
    return int(text)


def version(path: Path | None, side: int) -> str:
    """Changes with the file."""
    try:
        found = path.stat() if path else None
    except OSError:
        found = None
    state = (found.st_mtime_ns, found.st_size) if found else None
    return digest(repr((str(path), side, state)).encode())


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A socket that only this machine can reach; port 0 takes any free one."""
    with socket.socket() as taken:
        if sys.platform != "win32":  # there it would let another program take the same port
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((HOME, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used: {error.strerror}; choose another"
            ) from None
        taken.listen()
        yield taken


def server(book: DecisionLog, who: str, door: Auth) -> uvicorn.Server:
    """What answers on that socket, until Ctrl-C, once it is run."""
    config = uvicorn.Config(
        application(book, who, door),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)
