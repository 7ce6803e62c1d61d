"""The heartbeats of the worker processes of all nodes."""

import socket
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from skipmq import release
from skipmq.database.partitions import Database
from skipmq.database.statement import INTERVAL, JSONB, TEXT, Search, Statement
from skipmq.protocol import errors

_NOTE = Statement(
    "select skipmq.note_worker($1, $2, $3, $4, $5)", TEXT, TEXT, TEXT, INTERVAL, JSONB
)
_LIST = Search("select process, host, release, uptime, seen, figures::text from skipmq.workers()")


class Worker(NamedTuple):
    """A worker process; `seen` is the age of its last heartbeat in seconds."""

    process: str
    host: str
    release: str
    uptime: float
    seen: float
    figures: dict[str, float]

    @property
    def node(self) -> str:
        """Return the name of its node: the host, with the port where that is known."""
        return _name(self.host, self.figures.get("port"))


def name_of(port: int | None) -> str:
    """Return the name of this node, which listens on a port."""
    return _name(socket.gethostname(), port)


def _name(host: str, port: float | None) -> str:
    return f"{host}:{port}" if port else host


async def beat(database: Database, process: str, figures: dict[str, Any]) -> None:
    """Record that this process runs; an unavailable database is no error."""
    await _note(database, process, msgspec.json.encode(figures).decode())


async def leave(database: Database, process: str) -> None:
    """Record that this process stops."""
    await _note(database, process, None)


async def _note(database: Database, process: str, figures: str | None) -> None:
    uptime = monotonic() - release.STARTED
    parameters = (process, socket.gethostname(), release.VERSION, uptime, figures)
    with suppress(errors.SqsError):
        await database.rows_everywhere(_NOTE, parameters)


async def known(database: Database, deadline: float) -> list[Worker]:
    """Return the workers of all nodes."""
    rows = await database.rows_anywhere(_LIST, deadline=deadline)
    decode = msgspec.json.decode
    return [Worker(p, h, r, u, s, decode(figures)) for p, h, r, u, s, figures in rows]
