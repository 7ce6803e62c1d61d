"""The sessions of the database server over HTTP."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from support.http import NodeProcess

Ask = Callable[..., dict[str, Any]]


def test_session_is_listed_and_terminated(broker: NodeProcess, ask: Ask) -> None:
    with closing(psycopg.connect(broker.owner_url, application_name="forgotten")) as other:
        other.execute("select 1")
        listed = ask("ListSessions")["Sessions"]
        (one,) = (each for each in listed if each.get("Program") == "forgotten")
        assert one["State"] == "idle in transaction"
        assert any(each["Program"].startswith("skipmq ") for each in listed)

        named = {name: one[name] for name in ("ProcessId", "StartedMicroseconds")}
        assert ask("EndSession", Kind="terminate", **named) == {}

        with pytest.raises(psycopg.OperationalError):
            other.execute("select 1")
    refused = ask("EndSession", 400, Kind="cancel", **named)
    assert "does not exist any more" in refused["message"]
