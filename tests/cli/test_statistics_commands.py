"""`queue stats` and `top`: what queues hold and what happens in them."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skipmq.cli.queue.stats import count, duration, rate
from support import commands
from support.http import SKIPMQ, environment, eventually, free_port
from support.postgres import Connection, Databases, as_node
from support.sql import Queue, number, redrive_policy
from support.terminal import ALTERNATE, ORDINARY, Terminal


@pytest.fixture(scope="module")
def filled(embedded_databases: Databases) -> str:
    """Make a database of four queues with traffic, to be copied; return its owner's URL."""
    url = embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        idle, busy, dead = (Queue(connection, name) for name in ("idle", "busy", "dead"))
        hopeless = Queue(connection, "hopeless", RedrivePolicy=redrive_policy())
        busy.send(*[f"{n:04}" for n in range(1500)])
        busy.delete(*busy.receive(10))
        busy.receive(5, timeout=43_200)
        connection.execute("select skipmq.add_receives(%s, '{15}', '{1}')", ([busy.id],))
        idle.send("later", delay=600)
        hopeless.send("a", "b")
        for _ in range(2):
            hopeless.receive(timeout=0)
        assert dead.counts() == (2, 0, 0)
        connection.execute("select skipmq.fold_counts()")
    return url


@pytest.fixture
def owner(embedded_databases: Databases, filled: str) -> Iterator[Connection]:
    """Give the owner of a copy of it."""
    url = embedded_databases.copy(filled)
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    embedded_databases.drop(url)


@pytest.fixture
def url(owner: Connection, embedded_databases: Databases) -> str:
    return as_node(embedded_databases.url(owner.info.dbname))


def run(url: str, *words: str, code: int = 0) -> str:
    """Run a command; return what it printed."""
    return commands.run(*words, code=code, database_url=url)


def stats(url: str, *words: str) -> Any:
    return json.loads(run(url, "queue", "stats", *words, "--json"))


def names(url: str, *words: str) -> list[str]:
    return [each["queue"] for each in stats(url, *words)["queues"]]


def test_numbers_of_queues_are_given_as_json(url: str) -> None:
    found = stats(url)

    by_name = {each["queue"]: each for each in found["queues"]}
    busy = by_name["busy"]
    assert found["queues"][0] == busy
    assert [busy[k] for k in ("visible", "in_flight", "delayed")] == [1485, 5, 0]
    assert [busy[k] for k in ("sent", "bytes_sent", "deleted")] == [1500, 6000, 10]
    assert [busy[k] for k in ("received", "empty_receives")] == [15, 1]
    assert busy["send_rate"] > busy["delete_rate"] > 0
    assert busy["oldest"] >= 0
    assert by_name["hopeless"]["dead_lettered"] == 2
    assert (by_name["idle"]["delayed"], by_name["idle"]["oldest"]) == (1, None)
    assert found["others"]["queues"] == 0


def test_table_ends_with_the_sums_of_the_others(url: str) -> None:
    whole = run(url, "queue", "stats").splitlines()
    first, second = run(url, "queue", "stats", "--limit", "1", "--order", "messages").splitlines()[
        -2:
    ]

    assert whole[2].split()[:4] == ["busy", "1.5k", "5", "0"]
    assert len(whole) == 2 + 4
    assert first.startswith("busy")
    assert re.match(r"3 others, 3 messages .* 2 +0$", second)


def test_order_and_search_choose_the_queues(url: str) -> None:
    assert names(url, "--order", "name") == ["busy", "dead", "hopeless", "idle"]
    assert names(url, "--order", "messages", "--limit", "2") == ["busy", "dead"]
    assert names(url, "--order", "dead-lettered", "--limit", "1") == ["hopeless"]
    assert names(url, "--order", "oldest", "--limit", "1") == ["busy"]
    assert set(names(url, "--order", "trouble")) == {"busy", "dead", "hopeless", "idle"}
    found = stats(url, "--search", "D", "--limit", "1", "--order", "messages")
    assert [each["queue"] for each in found["queues"]] == ["dead"]
    assert (found["others"]["queues"], found["others"]["messages"]) == (1, 1)
    assert run(url, "queue", "stats", "--search", "nothing") == "no matching queues\n"
    assert "'size' is not one of" in run(url, "queue", "stats", "--order", "size", code=2)


def test_queue_has_all_its_numbers_and_its_last_minutes(owner: Connection, url: str) -> None:
    # The traffic may have been folded in one minute or in two.
    found = stats(url, "busy")
    told = run(url, "queue", "stats", "busy")

    assert (found["queue"], found["sent"], found["messages"]) == ("busy", 1500, 1490)
    assert sum(each["sent"] for each in found["minutes"]) == 1500
    assert sum(each["deleted"] for each in found["minutes"]) == 10
    assert found["minutes"][-1]["messages"] == 1490
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00Z", found["minutes"][0]["minute"])
    assert re.search(r"^bytes sent +6000 *$", told, re.MULTILINE)
    line = re.search(r"^sent +([▁▂▃▄▅▆▇█]{60}) +1\.5k *$", told, re.MULTILINE)
    assert line
    assert line[1].count("█") == 1
    assert line[1].count("▁") == 59
    assert re.search(r"^\d\d:\d\d .* 1\.5k +15 +10 +0 +0 +1\.5k *$", told, re.MULTILINE)
    Queue(owner, "quiet")
    assert "no activity in the last 60 minutes" in run(url, "queue", "stats", "quiet")


def test_queue_is_found_by_its_whole_name_among_many_that_contain_it(
    owner: Connection, url: str
) -> None:
    owner.execute(
        "select skipmq.create_queue('a-orders-' || n, '{}') from generate_series(1, 150) n"
    )
    assert "queue orders does not exist in account" in run(url, "queue", "stats", "orders", code=1)

    Queue(owner, "orders")

    assert stats(url, "orders")["queue"] == "orders"


def top(url: str, *options: str, size: tuple[int, int] = (30, 100), **more: bool) -> Terminal:
    variables = environment({"database_url": url})
    return Terminal([*SKIPMQ, "top", "--interval", "0.5", *options], variables, size, **more)


def queues_of(screen: str) -> list[str]:
    return re.findall(r"^(busy|dead|hopeless|idle) ", screen, re.MULTILINE)


def test_top_follows_the_queues_and_is_ordered_by_keys(owner: Connection, url: str) -> None:
    with top(url) as terminal:
        eventually(lambda: queues_of(terminal.screen)[:1] == ["busy"])
        shown = terminal.screen
        assert terminal.is_by_key
        assert re.search(r"\d\d:\d\d:\d\d UTC  4 queues  1\.5k messages  sent [\d.]+/s", shown)
        assert "database writable" in " ".join(shown.split())
        assert "by rate" in shown

        # An arrow is no key of ours, though what it sends has a letter in it.
        terminal.press("\x1b[D")
        terminal.press("d")
        eventually(lambda: queues_of(terminal.screen)[:1] == ["hopeless"])
        terminal.press("n")
        eventually(lambda: queues_of(terminal.screen) == ["busy", "dead", "hopeless", "idle"])
        assert "by name" in terminal.screen
        Queue(owner, "fifth")
        eventually(lambda: "5 queues" in terminal.screen)

        terminal.press("q")
        assert terminal.process.wait(timeout=60) == 0
        eventually(lambda: terminal.written.rstrip().endswith(ORDINARY))
        assert terminal.written.count(ALTERNATE) == 1
        assert terminal.modes() == terminal.before
        assert "\x1b[?25h" in terminal.written


@pytest.mark.parametrize(
    ("way", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)]
)
def test_top_restores_the_terminal_whatever_ends_it(
    url: str, way: signal.Signals, code: int
) -> None:
    with top(url) as terminal:
        eventually(lambda: queues_of(terminal.screen))

        terminal.process.send_signal(way)

        assert terminal.process.wait(timeout=60) == code
        eventually(lambda: ORDINARY in terminal.written)
        assert terminal.modes() == terminal.before


def test_top_restores_the_terminal_after_an_error(owner: Connection, url: str) -> None:
    with top(url) as terminal:
        eventually(lambda: queues_of(terminal.screen))

        owner.execute("drop function skipmq.queue_statistics")

        assert terminal.process.wait(timeout=60) == 1
        eventually(lambda: "skipmq: " in terminal.written.rpartition(ORDINARY)[2])
        assert terminal.modes() == terminal.before


def test_top_goes_on_after_the_database_was_unavailable(
    owner: Connection, url: str, embedded_databases: Databases
) -> None:
    name = owner.info.dbname
    with (
        psycopg.connect(embedded_databases.server.url, autocommit=True) as administrator,
        top(url) as terminal,
    ):
        eventually(lambda: queues_of(terminal.screen))

        administrator.execute(f"alter database {name} allow_connections false".encode())
        administrator.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = %s and usename = 'skipmq_node'",
            (name,),
        )
        eventually(lambda: "the database is unavailable" in " ".join(terminal.screen.split()))
        assert queues_of(terminal.screen)
        administrator.execute(f"alter database {name} allow_connections true".encode())
        eventually(lambda: "database writable" in " ".join(terminal.screen.split()))

        assert "away" not in terminal.written
        terminal.press("q")
        assert terminal.process.wait(timeout=60) == 0


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)], ids=["q", "Ctrl-C"])
def test_top_ends_while_the_database_hangs(
    owner: Connection, url: str, key: str, code: int
) -> None:
    with top(url, sends_signals=True) as terminal:
        eventually(lambda: queues_of(terminal.screen))
        with owner.transaction():
            owner.execute("lock table skipmq.queue in access exclusive mode")
            waiting = "select count(*) from pg_locks where not granted"
            eventually(lambda: number(owner, waiting))

            terminal.press(key)

            assert terminal.process.wait(timeout=60) == code
        # As it would say after five seconds.
        assert "unavailable" not in terminal.written


def test_top_fits_a_small_terminal(url: str) -> None:
    with top(url, "--order", "messages", size=(12, 80)) as terminal:
        eventually(lambda: "1 others" in terminal.screen)
        lines = terminal.screen.splitlines()

        assert len(queues_of(terminal.screen)) == 3
        assert len(lines) <= 12
        assert max(map(len, lines)) <= 80
        assert any(line.startswith("busy  ") and line.split()[1] == "1.5k" for line in lines)

        terminal.resize(30, 100)
        terminal.process.send_signal(signal.SIGWINCH)
        eventually(lambda: len(queues_of(terminal.screen)) == 4)


def test_top_without_a_terminal_names_what_programs_use(url: str) -> None:
    told = run(url, "top", code=1)

    assert "`skipmq queue stats --json`" in told
    assert len(told.splitlines()) == 1


def test_top_makes_no_broker(data: Path) -> None:
    variables = environment({"data_dir": data, "port": free_port()})
    with Terminal([*SKIPMQ, "top"], variables, (30, 200)) as terminal:
        assert terminal.process.wait(timeout=60) == 1
        eventually(lambda: "`skipmq serve` creates one" in terminal.written)

    assert not data.exists()


def test_numbers_are_shown_as_people_read_them() -> None:
    whole = [0, 950, 999, 1000, 1234, 9_960, 34_000, 999_600, 1_200_000, 3e15]
    assert [count(n) for n in whole] == [
        *("0", "950", "999", "1.0k", "1.2k", "10k", "34k", "1.0M", "1.2M", "3000T"),
    ]
    assert count(None) == ""
    assert [rate(r) for r in (0, 0.01, 0.3, 3.44, 9.96, 42.4, 1500)] == [
        *("0", "<0.1", "0.3", "3.4", "10", "42", "1.5k"),
    ]
    assert [duration(s) for s in (None, 0.4, 59.9, 60, 200, 7500, 277_200)] == [
        *("", "0s", "59s", "1m 0s", "3m 20s", "2h 5m", "3d 5h"),
    ]
