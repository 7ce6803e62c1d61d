"""`skipmq trouble`: what needs attention, from the database and by HTTP."""

import json
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from support.http import SKIPMQ, NodeProcess, environment
from support.postgres import Databases, as_node
from support.sql import Queue, redrive_policy


@pytest.fixture
def url(embedded_databases: Databases) -> Iterator[str]:
    """Give a database with a queue whose message was dead-lettered."""
    owner = embedded_databases.migrated()
    with psycopg.connect(owner, autocommit=True) as connection:
        Queue(connection, "dead")
        hopeless = Queue(connection, "hopeless", RedrivePolicy=redrive_policy())
        hopeless.send("a")
        for _ in range(2):
            hopeless.receive(timeout=0)
        connection.execute("select skipmq.fold_counts()")
    yield as_node(owner)
    embedded_databases.drop(owner)


def run(settings: dict[str, str], *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [*SKIPMQ, "trouble", *words],
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


SUMMARY = "Messages of hopeless moved to its dead-letter queue in a quarter of an hour: 1"


def test_trouble_is_printed_with_its_place_in_the_runbook_and_exits_with_1(url: str) -> None:
    code, text = run({"database_url": url})
    json_code, printed = run({"database_url": url}, "--json")

    assert (code, json_code) == (1, 1)
    assert SUMMARY in text
    assert "app/docs/operate/runbook.md#the-dead-letter-queue-fills" in text
    found = json.loads(printed)
    (trouble,) = found["troubles"]
    assert found["found"] == 1
    assert (trouble["trouble"], trouble["queue"], trouble["messages"]) == (
        "dead-lettered", "hopeless", 1,
    )  # fmt: skip
    assert trouble["summary"] == SUMMARY


def test_place_without_trouble_exits_with_0(url: str) -> None:
    assert run({"database_url": url}, "--region", "eu-west-1") == (0, "Nothing needs attention.\n")


def test_trouble_of_a_node_that_is_called_by_http_is_the_same(url: str) -> None:
    settings = {"runbook_url": "https://wiki.example/skipmq"}
    with NodeProcess(database_url=url, workers=1, **settings) as node:
        code, text = run({}, "--endpoint", node.ready().url)

    assert (code, SUMMARY in text) == (1, True)
    assert "https://wiki.example/skipmq#the-dead-letter-queue-fills" in text
