"""The sessions of the database server over HTTP."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

from support.http import NodeProcess

Ask = Callable[..., dict[str, Any]]


def test_unsigned_caller_lists_sessions_and_ends_none(broker: NodeProcess, ask: Ask) -> None:
    with closing(psycopg.connect(broker.owner_url, application_name="forgotten")) as other:
        other.execute("select 1")
        listed = ask("ListSessions")["Sessions"]
        (one,) = (each for each in listed if each.get("Program") == "forgotten")
        assert one["State"] == "idle in transaction"
        assert any(each["Program"].startswith("skipmq ") for each in listed)

        named = {name: one[name] for name in ("ProcessId", "StartedMicroseconds")}
        refused = ask("EndSession", 400, Kind="terminate", **named)

        assert "use `skipmq sessions` on the host of a node" in refused["message"]
        other.execute("select 1")
