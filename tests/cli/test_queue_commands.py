"""The commands that send, receive, follow, tag and set, and what a shell completes."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support import commands
from support.commands import following
from support.forks import Forked
from support.http import SKIPMQ, environment, eventually
from support.postgres import Databases, as_node


@pytest.fixture
def url(lent: str) -> str:
    return as_node(lent)


def run(url: str, *words: str, given: str | bytes = "", code: int = 0) -> str:
    """Run a `skipmq queue` command; return what it printed."""
    return commands.run("queue", *words, code=code, given=given, database_url=url)


def received(url: str, *words: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]]
    messages = json.loads(run(url, "receive", *words, "--json"))["messages"]
    return messages


def count(url: str, name: str) -> str:
    shown = json.loads(run(url, "show", name, "--json"))
    return str(shown["approximate_number_of_messages"])


def test_message_is_sent_as_it_was_written_and_received_with_its_attributes(url: str) -> None:
    run(url, "create", "orders")

    sent = json.loads(
        run(
            *(url, "send", "orders", '{"tea": 1}', "-a", "tries=Number:3"),
            *("-a", "raw=Binary.gzip:AAE=", "--group", "shop", "--json"),
        )
    )
    (message,) = received(url, "orders")

    assert message["message_id"] == sent["message_id"]
    assert message["body"] == '{"tea": 1}'
    assert message["attributes"]["message_group_id"] == "shop"
    assert message["message_attributes"]["tries"]["string_value"] == "3"
    assert message["message_attributes"]["raw"]["binary_value"] == "AAE="
    assert "no messages" in run(url, "receive", "orders")


def test_received_message_is_hidden_for_as_long_as_is_asked(url: str) -> None:
    run(url, "create", "orders")
    run(url, "send", "orders", "a")

    first, second = (received(url, "orders", "--visibility-timeout", "0")[0] for _ in range(2))

    assert first["message_id"] == second["message_id"]
    assert received(url, "orders", "--visibility-timeout", "600")
    assert "no messages" in run(url, "receive", "orders")
    assert "--visibility-timeout" in run(
        url, "receive", "orders", "--visibility-timeout", "43201", code=2
    )


@pytest.mark.parametrize("words", [(), ("-",)], ids=["nothing", "-"])
def test_body_is_standard_input_byte_for_byte(url: str, words: tuple[str, ...]) -> None:
    run(url, "create", "orders")
    text = "  grün\r\ntwo\n\n"

    run(url, "send", "orders", *words, given=text)

    (message,) = received(url, "orders")
    assert message["body"] == text


def test_lines_become_messages_in_batches_and_empty_ones_none(url: str) -> None:
    run(url, "create", "lines.fifo")
    text = "".join(f"line {n}\r\n\n" for n in range(25))

    told = run(
        *(url, "send", "lines.fifo", "--lines", "--group", "g", "--dedup-id", "file"), given=text
    )
    again = run(
        *(url, "send", "lines.fifo", "--lines", "--group", "g", "--dedup-id", "file"), given=text
    )
    bodies = []
    while messages := received(url, "lines.fifo", "--max", "10", "--delete"):
        bodies += [message["body"] for message in messages]

    assert "sent 25 messages" in told
    assert "sent 25 messages" in again
    assert bodies == [f"line {n}" for n in range(25)]


def test_large_lines_are_divided_by_the_bytes_of_a_batch(url: str) -> None:
    run(url, "create", "lines")
    line = "x" * 400_000

    told = run(url, "send", "lines", "--lines", given=f"{line}\n" * 5)

    assert "sent 5 messages" in told
    assert count(url, "lines") == "5"


def test_count_sends_copies_and_says_which_failed(url: str) -> None:
    run(url, "create", "orders")

    told = run(url, "send", "orders", "tea", "--count", "12")
    failed = json.loads(
        run(url, "send", "orders", "--lines", "--json", given="good\n\x01bad\ngood\n", code=1)
    )

    assert "sent 12 messages" in told
    assert failed["sent"] == 2
    assert [entry["number"] for entry in failed["failed"]] == [2]
    assert count(url, "orders") == "14"


def test_delayed_message_is_hidden(url: str) -> None:
    run(url, "create", "orders")

    run(url, "send", "orders", "later", "--delay", "900")

    assert received(url, "orders") == []
    assert "delayed for" in run(url, "peek", "orders")


def test_peek_shows_why_messages_failed_where_one_did(url: str) -> None:
    run(url, "create", "dead")
    run(url, "send", "dead", "never tried")
    assert "failure" not in run(url, "peek", "dead")

    run(url, "send", "dead", "tried", "-a", "FailureReason=String:ValueError: [red] it broke")

    header, *rows = run(url, "peek", "dead").splitlines()
    assert header.split() == ["message", "state", "received", "group", "failure", "body"]
    assert [row[header.index("failure") :].rstrip() for row in rows] == [
        "                            never tried",
        "ValueError: [red] it broke  tried",
    ]


def test_receive_deletes_only_when_told(url: str) -> None:
    run(url, "create", "orders", "-a", "VisibilityTimeout=0")
    run(url, "send", "orders", "--count", "3", "tea")

    kept = received(url, "orders", "--max", "10")
    deleted = received(url, "orders", "--max", "10", "--delete")

    assert (len(kept), len(deleted)) == (3, 3)
    assert received(url, "orders", "--max", "10") == []
    assert count(url, "orders") == "0"


@pytest.mark.parametrize(
    ("words", "given", "part"),
    [
        (["-a", "tries=3"], "", "'tries=3' is not of the form NAME=TYPE:VALUE"),
        (["body", "--lines"], "", "--lines cannot be combined with BODY or --count"),
        (["--delay", "31536001"], "", "31536001 is not in the range"),
    ],
)
def test_wrong_use_of_send_is_explained(url: str, words: list[str], given: str, part: str) -> None:
    assert part in run(url, "send", "orders", *words, given=given, code=2)


@pytest.mark.parametrize("words", [[], ["--lines"]])
def test_bytes_that_are_no_text_are_refused(url: str, words: list[str]) -> None:
    run(url, "create", "orders")

    assert "standard input is not UTF-8" in run(
        url, "send", "orders", *words, given=b"\xff\xfe", code=1
    )
    assert count(url, "orders") == "0"


def test_attributes_are_set_and_tags_come_and_go(url: str) -> None:
    run(url, "create", "orders")

    run(url, "set", "orders", "VisibilityTimeout=61", "DelaySeconds=5")
    run(url, "tag", "orders", "team=shop", "stage=a=b")
    tags = json.loads(run(url, "tag", "orders", "owner=me", "--remove", "team", "--json"))
    shown = json.loads(run(url, "show", "orders", "--json"))

    assert (shown["visibility_timeout"], shown["delay_seconds"]) == (61, 5)
    assert tags == {"queue": "orders", "tags": {"stage": "a=b", "owner": "me"}}
    assert "is not of the form NAME=VALUE" in run(url, "set", "orders", "x", code=2)
    assert "stage" in run(url, "tag", "orders")


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_tail_shows_each_new_message_once_and_receives_none(url: str, name: str) -> None:
    own = ("--group", "g", "--dedup-id") if name.endswith(".fifo") else ()
    run(url, "create", name)
    run(url, "send", name, "old", *own, *(["0"] if own else ["--delay", "900"]))

    with following(environment({"database_url": url}) | {"COLUMNS": "80"}, name, "--json") as tail:
        assert tail.stdout is not None
        shown = []
        for n in range(3):
            run(url, "send", name, f"new {n}", *own, *([f"n{n}"] if own else []))
            shown.append(json.loads(tail.stdout.readline()))
        # Receiving moves it to another place, where it is no new message.
        received(url, name)
        run(url, "send", name, "last", *own, *(["last"] if own else []))
        shown.append(json.loads(tail.stdout.readline()))
        tail.send_signal(signal.SIGINT)
        rest, complaint = tail.communicate(timeout=60)

    assert [message["body"] for message in shown] == ["new 0", "new 1", "new 2", "last"]
    assert (rest, tail.returncode) == ("", 130)
    assert json.loads(complaint)["error"]["code"] == "Stopped"
    peeked = json.loads(run(url, "peek", name, "--json"))["messages"]
    counts = [message["attributes"]["approximate_receive_count"] for message in peeked]
    assert sorted(counts) == [0, 0, 0, 0, 1]


def test_tail_goes_on_when_the_database_is_available_again(
    embedded_databases: Databases, url: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    run(url, "create", "orders")
    with (
        following(environment({"database_url": url}), "orders", "--json") as tail,
        psycopg.connect(embedded_databases.server.url, autocommit=True) as admin,
    ):
        assert tail.stdout is not None
        assert tail.stderr is not None
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        line = tail.stderr.readline()
        assert line.startswith("skipmq: ")
        assert line.endswith(" Trying again.\n")
        admin.execute(f"alter database {name} allow_connections true")
        run(url, "send", "orders", "tea")

        assert json.loads(tail.stdout.readline())["body"] == "tea"


def test_tail_shows_dead_letters_that_arrive(url: str) -> None:
    policy = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":1}'
    run(url, "create", "dead")
    run(url, "create", "work", "-a", "VisibilityTimeout=0", "-a", f"RedrivePolicy={policy}")
    run(url, "send", "work", "hopeless")

    with following(
        environment({"database_url": url}) | {"COLUMNS": "80"}, "dead", "--json"
    ) as tail:
        assert tail.stdout is not None
        for _ in range(2):
            received(url, "work")
        assert json.loads(tail.stdout.readline())["body"] == "hopeless"


def completed(words: str, **variables: str) -> tuple[list[str], str]:
    """Return what bash gets to complete a command line with, and the errors."""
    asked = {
        "_SKIPMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = commands.invoke((), environment({}) | asked | variables)
    assert done.code == 0
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line], done.stderr


def test_names_of_queues_complete(url: str) -> None:
    for name in ("orders", "others", "mails"):
        run(url, "create", name)

    for command in ("show", "stats", "send", "receive", "tail", "purge", "redrive --to"):
        found = completed(f"skipmq queue {command} o", SKIPMQ_DATABASE_URL=url)
        assert found == (["orders", "others"], ""), command


def test_completion_without_a_database_is_silent_and_starts_none(data: Path) -> None:
    words = "skipmq queue show o"
    away = "postgresql://127.0.0.1:1/x"

    for variables in (
        {"SKIPMQ_DATABASE_URL": away},
        {"SKIPMQ_DATABASE_URL": "postgresql://%zz"},
        {"SKIPMQ_PORT": "x"},
        {"SKIPMQ_DATA_DIR": str(data)},
    ):
        assert completed(words, **variables) == ([], "")
    assert not data.exists()


def test_redrive_goes_on_after_it_is_interrupted(url: str) -> None:
    policy = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":1}'
    run(url, "create", "dead")
    run(url, "create", "work", "-a", f"RedrivePolicy={policy}")
    run(url, "send", "dead", "tea", "--count", "100")
    with Forked(
        [*SKIPMQ, "queue", "redrive", "dead", "--to", "work", "--rate", "1", "--yes"],
        env=environment({"database_url": url}),
        stderr=subprocess.PIPE,
        text=True,
    ) as redrive:
        eventually(lambda: "running" in run(url, "tasks", "dead"))
        redrive.send_signal(signal.SIGINT)
        _, said = redrive.communicate(timeout=60)

    assert redrive.returncode == 130
    assert (
        "a task that has started continues on the nodes: `skipmq queue tasks dead` shows it" in said
    )
    (task,) = json.loads(run(url, "tasks", "dead", "--json"))["tasks"]
    assert (task["kind"], task["status"]) == ("redrive", "RUNNING")
    assert "cancelled" in run(url, "tasks", "dead", "--cancel")


def test_wait_is_ended_by_a_message(url: str) -> None:
    run(url, "create", "orders")
    with Forked(
        [*SKIPMQ, "queue", "receive", "orders", "--wait", "20", "--json"],
        env=environment({"database_url": url}),
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        run(url, "send", "orders", "tea")
        assert waiting.stdout is not None
        (message,) = json.load(waiting.stdout)["messages"]

    assert message["body"] == "tea"


def test_message_in_flight_is_released(url: str) -> None:
    run(url, "create", "orders.fifo", "--attribute", "ContentBasedDeduplication=true")
    run(url, "send", "orders.fifo", "first", "--group", "shop-7")
    run(url, "send", "orders.fifo", "second", "--group", "shop-7")
    (held,) = received(url, "orders.fifo", "--visibility-timeout", "900")

    (group,) = json.loads(run(url, "groups", "orders.fifo", "--json"))["groups"]
    assert (group["state"], group["messages_behind"]) == ("in-flight", 1)
    # Who receives for a command is this machine.
    assert group["message_id"] == held["message_id"]
    shown = run(url, "groups", "orders.fifo", "--group", "shop-7")
    assert "made 1 of orders.fifo visible" in run(url, "release", "orders.fifo", held["message_id"])
    assert group["client_address"] in shown
    assert "in-flight" not in run(url, "groups", "orders.fifo")
    assert "not in flight" in run(url, "release", "orders.fifo", "--group", "shop-7", code=1)
    assert "specify message IDs" in run(url, "release", "orders.fifo", code=2)
    (record,) = json.loads(
        commands.run(
            "audit",
            "--action",
            "ReleaseMessages",
            "--outcome",
            "done",
            "--limit",
            "1",
            "--json",
            database_url=url,
        )
    )["records"]
    assert record["parameters"]["MessageGroupIds"] == ["shop-7"]


def test_queue_is_paused_and_resumed(url: str) -> None:
    run(url, "create", "orders")
    run(url, "send", "orders", "a")

    assert run(url, "pause", "orders") == "paused receives of queue orders\n"
    with psycopg.connect(url) as owner:
        owner.execute(
            "select skipmq.pause_group(skipmq.queue_id('orders'), 'group-' || n)"
            " from generate_series(1, 101) n"
        )
    assert run(url, "pause", "orders", "--list").count("group-") == 101
    assert received(url, "orders") == []
    assert json.loads(run(url, "resume", "orders", "--json")) == {
        "queue": "orders",
        "paused": False,
    }
    assert len(received(url, "orders")) == 1
