"""What rows each server holds."""

import json
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from cluster.history import History, Op

_TABLES = ("message", "message_group", "deduplication", "history", "queue", "generation")
_PATIENCE = 60
Content = dict[str, list[Any]]


def note(history: History, owner_url: str, servers: Sequence[dict[str, Any]]) -> bool:
    """Note what all servers hold once they hold the same, or at last; tell whether they did.

    The nodes are still at work: a server is asked as often as another is ahead of it.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        begun = time.monotonic()
        found = {server["name"]: _content(owner_url, server) for server in servers}
        same = len({json.dumps(content) for content in found.values()}) == 1
        if same or begun > deadline:
            break
        time.sleep(0.3)
    now = time.monotonic()
    history.add(
        *(
            Op("content", "ok", name, begun, now, value=json.dumps(content))
            for name, content in found.items()
        )
    )
    return same


def _content(owner_url: str, server: dict[str, Any]) -> Content:
    url = make_conninfo(
        owner_url, host=server["host"], port=server["port"], target_session_attrs="any"
    )
    content = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for table in _TABLES:
            row = connection.execute(
                "select count(*), md5(coalesce(string_agg(h, '' order by h collate \"C\"), ''))"
                f" from (select md5(t::text) as h from skipmq.{table} t) t"
            ).fetchone()
            assert row is not None
            content[table] = list(row)
    return content
