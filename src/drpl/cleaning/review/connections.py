"""Connections that nobody uses are closed, so that there is room for those that somebody does."""

from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0  # seconds that a request may take to arrive
MOST = 400  # connections at once; more are told to come again


class PatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, but half a request does not hold a connection for ever."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.watch = self.loop.call_later(PATIENCE, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.watch.cancel()
        super().connection_lost(exc)

    def _close_if_idle(self) -> None:
        """Close unless a request is being answered; else look again later."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self.transport.close()
        else:
            self.watch = self.loop.call_later(PATIENCE, self._close_if_idle)
