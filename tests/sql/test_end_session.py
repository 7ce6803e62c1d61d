import psycopg
import pytest

from support.postgres import Connection
from support.sql import number

END = "select skipmq.end_session(%s, %s)"
ENDED = "select coalesce(array_agg(e), '{}') from skipmq.ended_sessions() e"
DIGEST = b"d" * 32


def test_session_ends_once_and_is_notified(owner: Connection, node: Connection) -> None:
    version = "select access_key_version from skipmq.cluster"
    versions = [number(owner, version)]
    owner.execute("listen skipmq")

    for _ in range(2):
        node.execute(END, (DIGEST, "1 hour"))
        versions.append(number(owner, version))

    assert number(node, ENDED) == [DIGEST]
    before, first, second = versions
    assert before != first == second
    assert next(owner.notifies(timeout=30, stop_after=1)).payload == "sql keys all"


def test_end_is_kept_for_a_day_at_most(owner: Connection, node: Connection) -> None:
    node.execute(END, (DIGEST, "10 years"))

    assert number(
        owner, "select until <= skipmq.clock() + interval '1 day' from skipmq.ended_session"
    )


def test_digest_has_32_bytes(node: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        node.execute(END, (b"short", "1 hour"))
