"""The review page's server: for this machine, this browser and this folder only."""

import json
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from drpl.cleaning.folder import read_clock
from drpl.cleaning.review.agreement import measure_agreement
from drpl.cleaning.review.connections import MOST, PatientProtocol
from drpl.cleaning.review.decision_log import (
    ActiveDecisions,
    DecisionLog,
    make_decision,
)
from drpl.cleaning.review.forecast import Forecaster
from drpl.cleaning.review.page import (
    build_policy,
    describe,
    encode_forecast,
    encode_found,
    encode_issues,
    encode_samples,
    fill_page,
)
from drpl.cleaning.review.thumbnails import encode_file
from drpl.data.wordnet import parse_whole
from drpl.errors import ConfigError, DataError, DrplError, StorageError
from drpl.files import digest

HOSTS = ["127.0.0.1", "localhost"]  # another name that leads here is another site's
SIDES = {"small": 256, "large": 1600}  # pixels a side
LONGEST = 1_000_000  # bytes of a request: the ids of a hundred thousand images
FIELDS = ("action", "label")
FOLLOW = "follow"  # do what is suggested: another label, or none where the verdict is outside
HEADERS = {
    "Content-Security-Policy": f"{build_policy()}; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Auth:
    """Who may come in: who knows the token.

    The token is in the address that the command prints. The first visit leaves it in a cookie
    that no script can read and that no other site's request carries.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = f"drpl-review-{port}"  # browsers do not tell the cookies of two ports apart
        self.token = secrets.token_urlsafe(32)
        self.single_use: set[str] = set()  # tokens that are good for one visit

    def make_address(self, *, once: bool = False) -> str:
        """What to open. Everyone on a machine can see a program's arguments: those that start a
        browser carry a token that is void as soon as it has been used."""
        token = secrets.token_urlsafe(32) if once else self.token
        if once:
            self.single_use.add(token)
        return f"http://{HOSTS[0]}:{self.port}/?token={token}"

    def find_refusal(self, request: Request) -> str | None:
        """Why a request may not come in."""
        cookie = request.cookies.get(self.cookie, "")
        if not _are_equal(cookie, self.token) and not self.find_token(request):
            return "open the address that `drpl review` printed"
        origins = [f"http://{name}:{self.port}" for name in HOSTS]
        if request.method not in ("GET", "HEAD") and request.headers.get("origin") not in origins:
            return "another site may not decide here"
        return None

    def find_token(self, request: Request) -> str | None:
        """The token in the address of a first visit, if it is good."""
        shown = request.query_params.get("token", "") if request.url.path == "/" else ""
        return next((t for t in (self.token, *self.single_use) if _are_equal(shown, t)), None)


def _are_equal(shown: str, right: str) -> bool:
    """Whether two secrets are equal; takes as long for every wrong one."""
    return secrets.compare_digest(shown.encode(), right.encode())


class AuthMiddleware(BaseHTTPMiddleware):
    """Lets in whom `auth` lets in, and sends the headers that keep the rest out."""

    def __init__(self, app: ASGIApp, auth: Auth) -> None:
        super().__init__(app)
        self.auth = auth

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Answer one request."""
        refusal = self.auth.find_refusal(request)
        response = (
            PlainTextResponse(f"Refused: {refusal}.", 403) if refusal else await call_next(request)
        )
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response


class ReviewAPI:
    """The answers to the page's requests. What is shown of the issues is the page's business."""

    def __init__(self, log: DecisionLog, who: str, auth: Auth) -> None:
        self.log, self.who, self.auth = log, who, auth
        self.cleaned = log.cleaned
        self.forecaster, self.learning = Forecaster(log.cleaned), threading.Lock()
        self.issues = encode_issues(log.cleaned)  # once: they do not change
        self.samples = encode_samples(log.cleaned)
        self.found = encode_found(log.cleaned)

    async def show_page(self, request: Request) -> Response:
        """The page itself; a first visit gets the cookie.

        Without a redirection: a browser that was sent here by another program or site would not
        carry a strict cookie through one. The page takes the token out of the address.
        """
        about = describe(self.cleaned, self.who) | {"found": self.found}
        response = HTMLResponse(fill_page("", about))
        if token := self.auth.find_token(request):
            self.auth.single_use.discard(token)
            response.set_cookie(
                self.auth.cookie, self.auth.token, httponly=True, samesite="strict", path="/"
            )
        return response

    def list_issues(self, _: Request) -> Response:
        """All issues."""
        return Response(self.issues, media_type="application/json")

    def list_samples(self, _: Request) -> Response:
        """All images, for who wants to see more than issues."""
        return Response(self.samples, media_type="application/json")

    def list_decisions(self, request: Request) -> Response:
        """The lines of the log that the page does not have yet."""
        since = parse_whole(request.query_params.get("since", "0"))
        if since is None:
            raise DataError("since must be a number of lines")
        return self._answer(since)

    async def decide(self, request: Request) -> Response:
        """Take a decision, or take one back; the answer means that it is on the disk."""
        asked = await _read_body(request)
        numbers, action, label = asked.get("ids", [asked.get("id")]), *map(asked.get, FIELDS)
        since = asked.get("since", 0)
        if not isinstance(numbers, list) or not numbers or not isinstance(action, str):
            raise DataError("wanted are an id, or several, and an action")
        if any(type(number) is not int for number in (*numbers, since)):
            raise DataError("ids and since must be whole numbers")
        if not isinstance(label, str | None):
            raise DataError("the label must be a text")
        if action == "undo":
            await run_in_threadpool(self.log.undo, self.who, *numbers)
        else:
            await run_in_threadpool(self._add, list(dict.fromkeys(numbers)), action, label or "")
        return self._answer(max(0, since))

    def _add(self, numbers: list[int], action: str, label: str) -> None:
        """One decision for all of these images: all of them are written, or none."""
        note = f"for {len(numbers)} at once" if len(numbers) > 1 else ""
        time, lines = read_clock(), []
        for number in numbers:
            own = self._follow(number) if action == FOLLOW else action
            made = make_decision(self.cleaned, number, own, label, self.who, time=time, note=note)
            lines.append(made)
        self.log.add(*lines)

    def _follow(self, number: int) -> str:
        verdict = getattr(self.cleaned.rows.get(number), "verdict", "")
        return "outside" if verdict == "outside" else "accept"

    def forecast(self, request: Request) -> Response:
        """What the decisions say of all samples; the order of the list where the page's is old."""
        ranked = parse_whole(request.query_params.get("ranked", "0"))
        with self.learning:
            active = ActiveDecisions(self.log.lines.copy())  # while it learns, more are made
            found = self.forecaster.learn(active.by_image())
        order = {"order": found.order} if found.ranked != ranked else {}
        people = {"agreement": [pair._asdict() for pair in measure_agreement(active)]}
        return JSONResponse(encode_forecast(found) | order | people)

    def _answer(self, since: int) -> Response:
        lines = [line._asdict() for line in self.log.lines[since:]]
        return JSONResponse({"start": since, "lines": lines})

    def show_image(self, request: Request) -> Response:
        """An image by its id; browsers keep it, and ask whether it is still the same."""
        number, side = request.path_params["id"], SIDES.get(request.path_params["size"])
        if side is None or number not in self.cleaned.samples.index:
            raise HTTPException(404)
        return self._send_image(request, self.cleaned.image(number), side)

    def show_test_image(self, request: Request) -> Response:
        """A test image that is a near-duplicate of a training image."""
        side = SIDES.get(request.path_params["size"])
        path = self.cleaned.test_image(request.path_params["id"])
        if side is None or path is None:
            raise HTTPException(404)
        return self._send_image(request, path, side)

    def _send_image(self, request: Request, path: Path | None, side: int) -> Response:
        tag = _make_tag(path, side)
        headers = {"Cache-Control": "private, no-cache", "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        content, kind = encode_file(path, side)
        return Response(content, media_type=kind, headers=headers)


def _make_tag(path: Path | None, side: int) -> str:
    """An ETag that changes with the file."""
    try:
        state = path.stat() if path else None
    except OSError:
        state = None
    changed = state and (state.st_mtime_ns, state.st_size)
    return f'"{digest(repr((str(path), side, changed)).encode())}"'


async def on_error(_: Request, error: Exception) -> Response:
    """A mistake in one sentence."""
    return JSONResponse({"error": str(error)}, 507 if isinstance(error, StorageError) else 400)


async def _read_body(request: Request) -> dict[str, Any]:
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


@contextmanager
def open_socket(port: int) -> Iterator[socket.socket]:
    """A socket that only this machine can reach; port 0 takes any free one."""
    with socket.socket() as opened:
        if sys.platform != "win32":  # there it would let another program take the same port
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((HOSTS[0], port))
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used: {error.strerror}; choose another"
            ) from None
        opened.listen()
        yield opened


def build_server(log: DecisionLog, who: str, auth: Auth) -> uvicorn.Server:
    """What answers on that socket, until Ctrl-C, once it is run."""
    api = ReviewAPI(log, who, auth)
    app = Starlette(
        routes=[
            Route("/", api.show_page),
            Route("/api/issues", api.list_issues),
            Route("/api/samples", api.list_samples),
            Route("/api/decisions", api.list_decisions),
            Route("/api/decide", api.decide, methods=["POST"]),
            Route("/api/forecast", api.forecast),
            Route("/image/{size}/{id:int}", api.show_image),
            Route("/image/{size}/test/{id:int}", api.show_test_image),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False),
            Middleware(AuthMiddleware, auth=auth),
        ],
        exception_handlers={DrplError: on_error},
    )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        http=PatientProtocol,
        limit_concurrency=MOST,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
