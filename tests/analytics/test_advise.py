"""`skipmq analytics advise`: what a history proves is shown, set if that is wanted, and audited."""

import json
import os
import pwd
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support import commands, lakes
from support.http import SKIPMQ, environment, eventually
from support.postgres import Connection, Databases, as_node
from support.programs import need
from support.settled import row
from support.sql import Queue
from support.terminal import Terminal

OTHER = "123456789012"
# What the lake has of the queues, and what is proved by it.
TIMEOUTS = {"orders": 30, "mails": 900, "calm": 30, "few": 30}
ADVISED = {"orders": 60, "mails": 30}
SET_45 = '{"VisibilityTimeout": "45"}'
# Of rows made by hand.
THEN = ("--since", "2026-11-20", "--until", "2026-11-21")


def history(queue: str, work: float, count: int, again: int = 0, **others: Any) -> list[Any]:
    """Return so many messages that took so long, and some that came again after 35 s."""
    once = [row(n, received=0, settled=work, queue=queue, **others) for n in range(count)]
    late = [
        row(count + n, received=0, settled=35, queue=queue, receive_count=2, **others)
        for n in range(again)
    ]
    return once + late


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [
        *history("orders", 41, 200, again=4),
        *history("mails", 0.5, 200),
        *history("calm", 2, 200),
        *history("few", 41, 50, again=4),
    ]
    return lakes.write(tmp_path_factory.mktemp("advise") / "lake", rows, TIMEOUTS)


@pytest.fixture
def owner(embedded_databases: Databases) -> Iterator[Connection]:
    """Give a database in which the queues are as the lake has them."""
    url = embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        for name, timeout in TIMEOUTS.items():
            Queue(connection, name, VisibilityTimeout=timeout)
        yield connection
    embedded_databases.drop(url)


@pytest.fixture
def url(owner: Connection, embedded_databases: Databases) -> str:
    return as_node(embedded_databases.url(owner.info.dbname))


def run(url: str, *words: str, code: int = 0) -> str:
    """Run the command on a lake, for which it needs no Spark."""
    return commands.run("analytics", "advise", *words, code=code, database_url=url)


def by_spark(url: str, *words: str) -> str:
    """Run the command in a process of its own, which starts Spark."""
    done = subprocess.run(
        [*SKIPMQ, "analytics", "advise", *words],
        env=environment({"database_url": url, "spark_master": "local[2]"}),
        capture_output=True, text=True, timeout=400, check=False, input="",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def changes(url: str, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    said = json.loads(run(url, *words, "--json", code=code))
    assert (said["engine"], said["since"][:10], said["until"][:10]) == (
        *("duckdb", "2026-11-20", "2026-11-21"),
    )
    return {change["queue"]: change for change in said["changes"]}


def timeouts(owner: Connection) -> dict[str, int]:
    found = owner.execute("select queue, visibility_timeout from skipmq_views.queue").fetchall()
    return dict(found)


def audited(owner: Connection) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select user_arn, door, action, split_part(queue, ':', 6), account, outcome,"
        " parameters -> 'Attributes' ->> 'VisibilityTimeout'"
        " from skipmq.audit_records() order by 4"
    ).fetchall()


def person() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def cells(text: str, queue: str) -> list[str]:
    """Return what the table has of a queue."""
    found = re.search(rf"^{queue} .*$", text, re.MULTILINE)
    assert found, text
    return re.split(" {2,}", found[0].strip())


def test_advice_is_shown_with_its_proof_and_nothing_is_changed(
    owner: Connection, url: str, lake: str
) -> None:
    said = run(url, "--lake", lake, *THEN)
    found = changes(url, "--lake", lake, *THEN)

    assert cells(said, "orders") == [
        *("orders", "30 s", "60 s"),
        "p99 of processing 41 s, 204 deleted; 4 redelivered after their timeout (2.0 %)",
    ]
    assert "nothing was changed: use --apply" in said
    assert not re.search("^(calm|few)", said, re.MULTILINE)
    assert {name: each["suggested"] for name, each in found.items()} == ADVISED
    assert [found["orders"][name] for name in ("reported", "present", "deleted", "timed_out")] == [
        *(30, 30, 204, 4)
    ]
    assert {each["outcome"] for each in found.values()} == {"advised"}
    assert timeouts(owner) == TIMEOUTS
    assert audited(owner) == []


def test_advice_of_a_lake_needs_no_broker_and_names_what_it_cannot_know(
    lake: str, tmp_path: Path
) -> None:
    words, settings = ("analytics", "advise", "--lake", lake, *THEN), {"data_dir": tmp_path / "no"}

    shown = commands.run(*words, **settings)

    assert cells(shown, "orders")[1:3] == [
        "60 s",
        "p99 of processing 41 s, 204 deleted; 4 redelivered after their timeout (2.0 %)",
    ]
    assert "no broker was reached, whose timeouts may differ" in shown
    assert "no broker in" in commands.run(*words, "--apply", "--yes", code=1, **settings)


def test_applied_advice_is_set_and_audited_and_not_given_again(
    owner: Connection, url: str, lake: str
) -> None:
    said = run(url, "--lake", lake, *THEN, "--apply", "--yes")
    again = run(url, "--lake", lake, *THEN, "--apply", "--yes")

    assert cells(said, "orders")[:3] == ["orders", "30 s", "60 s"]
    assert "orders: 30 s → 60 s" in said
    assert timeouts(owner) == TIMEOUTS | ADVISED
    assert audited(owner) == [
        (
            person(),
            "command",
            "SetQueueAttributes",
            name,
            "000000000000",
            "done",
            str(ADVISED[name]),
        )
        for name in sorted(ADVISED)
    ]
    assert "nothing to change" in again


def test_only_the_queues_that_are_named_are_changed(owner: Connection, url: str, lake: str) -> None:
    words = ("--lake", lake, *THEN, "--queue", "mails", "--apply", "--yes")

    found = changes(url, *words)

    assert [(name, each["outcome"]) for name, each in found.items()] == [("mails", "changed")]
    assert timeouts(owner) == TIMEOUTS | {"mails": 30}


def test_applying_without_a_terminal_is_refused_at_once(owner: Connection, url: str) -> None:
    said = run(url, "--apply", code=2)

    assert "--apply asks for confirmation on a terminal: without one, add --yes" in said
    assert timeouts(owner) == TIMEOUTS


def test_queue_of_another_account_is_changed_as_that_account(
    owner: Connection, url: str, tmp_path: Path
) -> None:
    owner.execute(
        "select skipmq.create_queue('orders', '{\"VisibilityTimeout\": \"30\"}', p_account => %s)",
        (OTHER,),
    )
    rows = history("orders", 41, 200, again=4, account=OTHER)
    lake = lakes.write(tmp_path / "lake", rows, {"orders": 30}, account=OTHER)

    said = run(url, "--lake", lake, *THEN, "--apply", "--yes")

    assert f"arn:aws:sqs:us-east-1:{OTHER}:orders: 30 s → 60 s" in said
    assert owner.execute(
        "select account, visibility_timeout from skipmq_views.queue where queue = 'orders'"
        " order by 1"
    ).fetchall() == [("000000000000", 30), (OTHER, 60)]
    assert [record[4] for record in audited(owner)] == [OTHER]


def test_advice_is_withheld_where_the_history_is_not_of_the_present_timeout(
    owner: Connection, url: str, lake: str
) -> None:
    owner.execute(
        "update skipmq.queue set created_at = created_at - interval '1 hour' where name = 'orders'"
    )
    owner.execute("select skipmq.set_queue_attributes(skipmq.queue_id('orders'), %s)", (SET_45,))
    owner.execute("select skipmq.delete_queue(skipmq.queue_id('mails'))")
    words = ("--lake", lake, *THEN, "--apply", "--yes")

    said = run(url, *words)
    found = changes(url, *words)
    put_back = SET_45.replace("45", "30")
    owner.execute("select skipmq.set_queue_attributes(skipmq.queue_id('orders'), %s)", (put_back,))
    still = changes(url, *words)["orders"]

    assert re.search(r"30 s in the report; the queue was changed at .* --since \d{4}-", said)
    assert cells(said, "mails")[-1] == "not changed: the queue does not exist"
    assert said.rstrip().splitlines()[-1].startswith("nothing to change")
    assert {each["outcome"] for each in found.values()} == {"withheld"}
    assert (found["orders"]["present"], found["mails"]["present"]) == (45, None)
    assert (still["present"], still["outcome"]) == (30, "withheld")
    assert audited(owner) == []


def test_of_what_is_shown_each_is_set_or_said_not_to_be(
    owner: Connection, url: str, lake: str
) -> None:
    with terminal(url, "--lake", lake, *THEN, "--apply") as command:
        eventually(lambda: "Set 2 visibility timeouts?" in command.written, 120)
        assert timeouts(owner) == TIMEOUTS
        owner.execute("select skipmq.delete_queue(skipmq.queue_id('mails'))")
        command.press("y\n")

        assert command.process.wait(timeout=120) == 1
        eventually(lambda: "orders: 30 s → 60 s" in command.written)
        eventually(lambda: "mails: not changed: AWS.SimpleQueueService.N" in command.written)

    assert timeouts(owner)["orders"] == 60


def test_timeout_that_somebody_set_while_it_was_asked_about_stays(
    owner: Connection, url: str, lake: str
) -> None:
    with terminal(url, "--lake", lake, *THEN, "--apply", "--json") as command:
        eventually(lambda: "Set 2 visibility timeouts?" in command.written, 120)
        assert "p99 of processing 41 s" in command.written
        owner.execute(
            "select skipmq.set_queue_attributes(skipmq.queue_id('orders'), %s)", (SET_45,)
        )
        command.press("y\n")

        assert command.process.wait(timeout=120) == 1
        eventually(lambda: '"reason": "it was set to 45 s in the meantime"' in command.written)

    assert timeouts(owner) == TIMEOUTS | {"orders": 45, "mails": 30}


def test_who_says_no_changes_nothing(owner: Connection, url: str, lake: str) -> None:
    with terminal(url, "--lake", lake, *THEN, "--apply") as command:
        eventually(lambda: "Set 2 visibility timeouts?" in command.written, 120)
        command.press("n\n")

        assert command.process.wait(timeout=120) == 1
        assert "nothing was changed; --yes answers the question" in command.written

    assert timeouts(owner) == TIMEOUTS


def terminal(url: str, *words: str) -> Terminal:
    variables = environment({"database_url": url})
    return Terminal([*SKIPMQ, "analytics", "advise", *words], variables, (50, 200))


@pytest.mark.slow
def test_advice_of_the_database_is_not_given_twice_for_one_history(
    owner: Connection, url: str
) -> None:
    """A raised timeout would seem too short again, by what was settled before."""
    need("java")
    owner.execute(
        "update skipmq.queue set created_at = created_at - interval '2 days',"
        " modified_at = modified_at - interval '2 days'"
    )
    settle(owner, 41, 1, 200)
    # By 60 s they would be timed out too, and 90 s the advice.
    settle(owner, 65, 2, 4)
    words = ("--apply", "--yes", "--json")

    first = json.loads(by_spark(url, *words))
    again = json.loads(by_spark(url, *words))

    assert first["engine"] == "spark"
    assert [(c["queue"], c["suggested"], c["outcome"]) for c in first["changes"]] == [
        ("orders", 60, "changed")
    ]
    assert [(c["suggested"], c["outcome"]) for c in again["changes"]] == [(90, "withheld")]
    assert timeouts(owner) == TIMEOUTS | {"orders": 60}


def settle(owner: Connection, seconds: int, receives: int, count: int) -> None:
    """Settle so many orders that took so long, after so many receives, in this moment."""
    owner.execute(
        "insert into skipmq.history (settled_at, sent_at, first_received_at, xid, id, queue_id,"
        " receive_count, body_bytes, attribute_bytes, message_id, outcome)"
        " select now(), t, t, pg_current_xact_id()::text::bigint,"
        " nextval('skipmq.message_id_seq'), skipmq.queue_id('orders'), %s, 5, 0,"
        " gen_random_uuid(), 'deleted'"
        " from (select now() - make_interval(secs => %s) t) moment, generate_series(1, %s)",
        (receives, seconds, count),
    )
