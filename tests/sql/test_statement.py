"""Statements of the hot path hand their parameters over as psycopg would."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from skipmq.store.statement import (
    BIGINTS,
    INTEGER,
    INTEGERS,
    INTERVAL,
    TEXT,
    TEXTS,
    TIME,
    Kind,
    Statement,
)
from support.postgres import Connection

MOMENT = datetime(2026, 2, 28, 23, 59, 59, 123456, UTC)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(INTEGER, 0, id="zero"),
        pytest.param(INTEGER, -(2**31), id="least integer"),
        pytest.param(TEXT, "", id="empty text"),
        pytest.param(TEXT, "naïve 😀 'quoted' {\\}", id="text"),
        pytest.param(TIME, MOMENT, id="time"),
        pytest.param(INTERVAL, timedelta(seconds=1), id="interval"),
        pytest.param(INTERVAL, timedelta(days=-1, microseconds=7), id="negative interval"),
        pytest.param(TEXTS, [], id="no texts"),
        pytest.param(TEXTS, ["a", "", None, "é{,}\"\\'", "null"], id="texts"),
        pytest.param(INTEGERS, [], id="no integers"),
        pytest.param(INTEGERS, [1, None, -1, 2**31 - 1], id="integers"),
        pytest.param(BIGINTS, [2**63 - 1, -(2**63), 0, None], id="bigints"),
        *(
            pytest.param(kind, None, id=f"null {kind.oid}")
            for kind in (INTEGER, TEXT, TIME, INTERVAL, TEXTS, INTEGERS, BIGINTS)
        ),
    ],
)
def test_parameter_comes_back_as_it_was(owner: Connection, kind: Kind, value: Any) -> None:
    statement = Statement("select $1", kind)

    # A second time it is known to the connection.
    assert [statement.run(owner, [value]) for _ in range(2)] == [[(value,)]] * 2


def test_statement_that_gives_no_columns_gives_rows(owner: Connection) -> None:
    assert Statement("select from generate_series(1, $1)", INTEGER).run(owner, [3]) == [()] * 3


def test_statement_gives_what_psycopg_gives(owner: Connection) -> None:
    text = (
        "select 1::bigint, timestamptz '2026-03-01 00:00:00.5+01', 'x'::text, null::text,"
        " interval '3 s', 2::int, true"
    )

    given = Statement(text).run(owner, [])

    assert given == owner.execute(sql.SQL(text)).fetchall()
    assert [type(value) for value in given[0]] == [
        int, datetime, str, type(None), timedelta, int, bool,
    ]  # fmt: skip


def test_text_with_a_nul_is_refused_before_it_is_sent(owner: Connection) -> None:
    for kind, value in ((TEXT, "a\0b"), (TEXTS, ["a\0b"])):
        with pytest.raises(psycopg.DataError):
            Statement("select $1", kind).run(owner, [value])


def test_error_of_the_server_is_the_one_of_its_sqlstate(owner: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero) as caught:
        Statement("select 1 / $1", INTEGER).run(owner, [0])

    assert caught.value.diag.message_primary == "division by zero"
    assert Statement("select $1", INTEGER).run(owner, [1]) == [(1,)]


def test_statement_that_cannot_be_prepared_says_why(owner: Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        Statement("select * from no_such_table").run(owner, [])


def test_lost_connection_is_an_operational_error(owner: Connection, database: str) -> None:
    statement = Statement("select $1", INTEGER)
    with psycopg.connect(database, autocommit=True) as lost:
        statement.run(lost, [1])
        owner.execute("select pg_terminate_backend(%s)", (lost.info.backend_pid,))

        with pytest.raises(psycopg.OperationalError):
            statement.run(lost, [1])

        assert lost.broken


def test_plan_that_a_migration_made_stale_is_told_by_its_sqlstate(owner: Connection) -> None:
    owner.execute("create table t (a int)")
    statement = Statement("select * from t")
    statement.run(owner, [])
    owner.execute("alter table t add b int")

    with pytest.raises(psycopg.errors.FeatureNotSupported):
        statement.run(owner, [])
