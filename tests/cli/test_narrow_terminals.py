"""Tables in a terminal of 80 columns: a key is never cut, columns go first, and bodies shrink."""

import json
import re

import pytest

from support import commands
from support.http import SKIPMQ, environment, eventually
from support.postgres import as_node
from support.terminal import Terminal

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LONG = "orders-of-the-shop-in-the-north-that-are-paid-by-invoice-and-wait-for-stock"
ACCOUNT = "210987654321"


@pytest.fixture
def url(lent: str) -> str:
    return as_node(lent)


def printed(url: str, *words: str, columns: int = 80) -> list[str]:
    """Return the lines that a command prints in a terminal."""
    variables = environment({"database_url": url})
    with Terminal([*SKIPMQ, *words], variables, (50, columns)) as terminal:
        assert terminal.process.wait(timeout=60) == 0
        eventually(lambda: terminal.written.count("\n") > 1)
        return _CONTROL.sub("", terminal.written).replace("\r", "").splitlines()


def test_messages_keep_their_ids_and_bodies_shrink(url: str) -> None:
    commands.run("queue", "create", "orders.fifo", database_url=url)
    words = ("orders.fifo", "--group", "customer-7-of-the-shop-in-the-north", "--dedup-id", "1")
    body = "a long body " * 20
    sent = commands.run("queue", "send", *words, body, database_url=url).split()[1]

    peeked = printed(url, "queue", "peek", "orders.fifo")
    wide = printed(url, "queue", "peek", "orders.fifo", columns=160)
    received = printed(url, "queue", "receive", "orders.fifo")

    for lines in (peeked, received):
        assert all(len(line) <= 80 for line in lines)
        assert lines[1].startswith(f"{sent}  ")
        assert lines[1].rstrip().endswith("…")
        assert "a long body" in lines[1]
    assert peeked[0].split() == ["message", "state", "body"]
    assert wide[0].split() == ["message", "state", "received", "group", "body"]


def test_queues_keep_their_names_and_columns_go(url: str) -> None:
    commands.run("queue", "create", LONG[:60], database_url=url)
    commands.run("queue", "create", "short", database_url=url)

    for command in ("list", "stats"):
        lines = printed(url, "queue", command)
        assert all(len(line) <= 80 for line in lines)
        (row,) = (line for line in lines if line.startswith("orders"))
        assert row.split()[:2] == [LONG[:60], "0"]
        assert "delayed" not in lines[0]
        assert command == "list" or "sent" in lines[0]
    narrow = printed(url, "queue", "list", columns=40)
    assert "".join(line.split()[0] for line in narrow[1:3]) == LONG[:60]
    wide = printed(url, "queue", "stats", columns=160)
    assert "lettered" in "".join(wide[:2])


def test_statistics_name_the_place_of_queues_that_are_not_of_the_settings(url: str) -> None:
    place = {"account": ACCOUNT, "region": "eu-north-1"}
    commands.run("queue", "create", "far", database_url=url, **place)
    commands.run("queue", "create", "near", database_url=url)

    here = commands.run("queue", "stats", database_url=url)
    there = commands.run("queue", "stats", database_url=url, **place)

    assert f"far ({ACCOUNT}, eu-north-1) " in here
    assert "near (000000000000, us-east-1) " in there
    assert "near (" not in here
    assert "far (" not in there


def test_times_actions_and_rates_stay(url: str) -> None:
    commands.run("queue", "create", "orders-of-the-shop-in-the-north", database_url=url)

    heading, row = printed(url, "audit")
    first, second, _ = printed(url, "queue", "stats")

    assert heading.split()[:4] == ["time", "(UTC)", "action", "queue"]
    assert heading.split()[-1] == "outcome"
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  CreateQueue  orders", row)
    assert len(row) <= 80
    assert first.split()[-3:] == ["sent", "received", "deleted"]
    assert second.split()[-3:] == ["/s", "/s", "/s"]


def test_what_is_not_for_a_terminal_is_not_padded(url: str) -> None:
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead"}
    attribute = f"RedrivePolicy={json.dumps(policy | {'maxReceiveCount': 3})}"
    commands.run("queue", "create", "dead", database_url=url)
    commands.run("queue", "create", "orders", "-a", attribute, database_url=url)

    lines = commands.run("queue", "show", "orders", database_url=url).splitlines()

    assert len(lines) > 10
    assert [line for line in lines if line != line.rstrip()] == []
