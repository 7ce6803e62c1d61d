"""`skipmq trouble`: what needs attention, from the database and by HTTP."""

import json
import signal
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from support import forks
from support.http import SKIPMQ, NodeProcess, environment, free_port
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
    done = forks.run([*SKIPMQ, "trouble", *words], environment(settings))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


SUMMARY = "Messages of hopeless moved to a dead-letter queue in a quarter of an hour: 1"


def test_trouble_is_printed_with_its_place_in_the_runbook_and_exits_with_1(url: str) -> None:
    code, text = run({"database_url": url})
    json_code, printed = run({"database_url": url}, "--json")

    assert (code, json_code) == (1, 1)
    assert SUMMARY in text
    assert "`skipmq runbook the-dead-letter-queue-fills`" in text
    found = json.loads(printed)
    (trouble,) = found["troubles"]
    assert found["found"] == 1
    assert (trouble["trouble"], trouble["queue"], trouble["messages"]) == (
        "dead-lettered", "hopeless", 1,
    )  # fmt: skip
    assert trouble["summary"] == SUMMARY
    assert trouble["since"].endswith("Z")
    assert (found["unknown"], found["error"]) == ([], None)


def test_place_without_trouble_exits_with_0(url: str) -> None:
    assert run({"database_url": url}, "--region", "eu-west-1") == (0, "Nothing needs attention.\n")


def test_trouble_of_all_places_is_shown_unless_one_is_named(url: str) -> None:
    code, text = run({"database_url": url, "region": "eu-west-1"})

    assert (code, SUMMARY in text) == (1, True)
    assert "account 000000000000, region us-east-1" in text


@pytest.mark.parametrize("place", ["database_url", "endpoint"])
def test_what_cannot_be_reached_is_reported_as_json(place: str) -> None:
    where = "postgresql://skipmq@127.0.0.1" if place == "database_url" else "http://127.0.0.1"

    code, printed = run({place: f"{where}:{free_port()}"}, "--json")

    found = json.loads(printed)
    assert "queues" in found["unknown"]
    assert found["error"]
    # An unreachable database is known to be trouble, an unreachable node tells nothing.
    states = ["database-unreachable"] if place == "database_url" else []
    assert (code, [each["trouble"] for each in found["troubles"]]) == (2 - len(states), states)


def test_watch_repeats_until_it_is_interrupted(url: str) -> None:
    with forks.Forked(
        [*SKIPMQ, "trouble", "--watch", "--json"],
        env=environment({"database_url": url}),
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        documents = 0
        for line in watching.stdout:
            documents += line == "{\n"
            if documents > 1:
                watching.send_signal(signal.SIGINT)
                break

    assert documents > 1
    assert watching.wait(60) == 130


def test_trouble_of_a_node_that_is_called_by_http_is_the_same(url: str) -> None:
    settings = {"runbook_url": "https://wiki.example/skipmq"}
    with NodeProcess(database_url=url, workers=1, **settings) as node:
        code, text = run({}, "--endpoint", node.ready().url)

    assert (code, SUMMARY in text) == (1, True)
    assert "https://wiki.example/skipmq#the-dead-letter-queue-fills" in text
