"""`skipmq sessions`, `nodes` and `tasks`."""

import json
from contextlib import closing
from typing import Any

import psycopg
import pytest

from support import commands
from support.postgres import as_node


@pytest.fixture
def node_database(lent: str) -> tuple[str, str]:
    """Give a database of its own: the URL of its owner, and that of a node."""
    owner = lent
    return owner, as_node(owner)


def run(url: str, *words: str, code: int = 0, given: str = "") -> str:
    return commands.run(*words, code=code, given=given, database_url=url)


def read(url: str, *words: str) -> Any:
    return json.loads(run(url, *words, "--json"))


def test_session_is_shown_and_terminated(node_database: tuple[str, str]) -> None:
    owner, url = node_database
    with closing(psycopg.connect(owner, application_name="forgotten")) as other:
        other.execute("select 1")
        pid = str(other.info.backend_pid)
        found = {each["process_id"]: each for each in read(url, "sessions")["sessions"]}
        assert found[int(pid)]["state"] == "idle in transaction"
        assert "forgotten" in run(url, "sessions")

        kept = run(url, "sessions", "--terminate", pid, code=1, given="n\n")
        assert "nothing was changed" in kept
        assert "terminated process" in run(url, "sessions", "--terminate", pid, "--yes")

        with pytest.raises(psycopg.OperationalError):
            other.execute("select 1")
    assert "no session" in run(url, "sessions", "--cancel", pid, code=1)


def test_nodes_and_tasks_are_listed(node_database: tuple[str, str]) -> None:
    _, url = node_database
    assert read(url, "nodes") == {"workers": []}
    assert read(url, "tasks") == {"tasks": []}
    run(url, "queue", "create", "orders")
    run(url, "queue", "send", "orders", "a")
    run(url, "queue", "delete-matching", "orders", "--body", "a", "--yes")

    (task,) = read(url, "tasks")["tasks"]

    assert (task["kind"], task["status"]) == ("delete", "COMPLETED")
    assert "orders" in run(url, "tasks")
