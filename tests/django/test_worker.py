"""`manage.py skipmq_work`: effects are there once, whatever becomes of the worker."""

import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skipmq import Queue as Sender
from support.http import eventually
from support.postgres import Connection
from support.sql import number


def shipments(tables: Connection) -> list[tuple[int, int]]:
    """Return the effects: of which order, and what the consumer has noted."""
    return tables.execute('select "order", receive from shop_shipment order by id').fetchall()


def counts(tables: Connection, queue: str = "orders") -> tuple[int, ...] | None:
    return tables.execute(
        "select n.visible, n.in_flight, n.delayed from skipmq_views.queue q,"
        " skipmq.count_messages(q.queue_id) n where q.queue = %s and q.retired_at is null",
        (queue,),
    ).fetchone()


def test_message_is_sent_with_the_order_or_not_at_all(shop: Any, tables: Connection) -> None:
    shop.place("tea")
    assert "RefusedError" in shop.run("place_order", '{"item": "x", "refuse": true}', code=1)

    assert number(tables, "select count(*) from shop_order") == 1
    assert counts(tables) == (1, 0, 0)


def test_once_ends_when_all_is_done(shop: Any, tables: Connection) -> None:
    shop.place("tea")
    shop.place("milk", fails_once="broken")

    with shop.start("skipmq_work", "--once", "--concurrency", "2") as worker:
        assert worker.ended() == 1

    assert "ValueError: broken" in worker.log
    assert worker.lines[-1] == "skipmq: stopped (2 done, 1 retried)"
    assert sorted(shipments(tables)) == [(1, 1), (2, 2)]
    assert counts(tables) == (0, 0, 0)

    with shop.start("skipmq_work", "shop", "--once") as worker:
        assert worker.ended() == 0
    assert worker.lines[-1] == "skipmq: stopped (no message)"


def test_settings_of_the_database_change_nothing(shop: Any, tables: Connection) -> None:
    settings = {
        "array_nulls": "off",
        "datestyle": "SQL, DMY",
        "default_transaction_isolation": "'serializable'",
        "intervalstyle": "'iso_8601'",
        "search_path": "public, pg_catalog",
        "standard_conforming_strings": "off",
        "timezone": "'Asia/Kathmandu'",
    }
    for name, value in settings.items():
        place = psycopg.sql.Identifier(tables.info.dbname)
        change = psycopg.sql.SQL(f"alter database {{}} set {name} to {value}")  # type: ignore[arg-type]
        tables.execute(change.format(place))
    peek = "for m in messages('default', Queue('orders'), limit=9): print(m.sent_at.isoformat())"

    shop.place("tea")
    shown = shop.run(
        *("shell", "-v0", "-c"),
        f"from skipmq import Queue\nfrom skipmq.django.peeking import messages\n{peek}",
    )
    with shop.start("skipmq_work", "--once") as worker:
        assert worker.ended() == 0, worker.log

    assert shown.strip().endswith("+00:00")
    assert shipments(tables) == [(1, 1)]


def test_models_in_another_database_are_warned_of_and_refused(
    shop: Any, tables: Connection, tmp_path: Path
) -> None:
    """What no transaction holds together is not said to be."""
    shop.settings["databases"] = {
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop.sqlite")},
        "mq": shop.settings["databases"]["default"],
    }
    shop.settings["skipmq"]["DATABASE"] = "mq"
    Sender("orders", dict).send({"order": 1, "using": "default"}, using=tables)

    checked = shop.run("check")
    text = "the message is in the database 'mq', and using='default' is another: no transaction"
    with shop.start("skipmq_work") as worker:
        eventually(lambda: text in worker.log, why="the handler was refused")
        assert "no such table" not in worker.log

    assert "The consumers of 'shop' receive from the database 'mq', and models of it" in checked
    assert "skipmq.W001" in checked


def test_worker_that_is_killed_in_the_middle_has_done_nothing(
    shop: Any, tables: Connection, tmp_path: Path
) -> None:
    """Between the claim, which has committed, and the commit of the work."""
    gate = tmp_path / "order.gate"
    gate.touch()
    shop.place("tea", gate=str(gate))
    with shop.start("skipmq_work") as worker:
        eventually(gate.with_suffix(".begun").exists, why="the handler has written")
        worker.process.kill()
        assert worker.ended() == -signal.SIGKILL
    assert shipments(tables) == []
    assert sum(counts(tables) or ()) == 1
    gate.unlink()

    with shop.start("skipmq_work") as worker:
        eventually(lambda: shipments(tables), why="the other worker has it")
        worker.process.terminate()
        assert worker.ended() == 0

    ((order, receive),) = shipments(tables)
    assert (order, receive > 1) == (1, True)
    assert counts(tables) == (0, 0, 0)


def test_worker_that_is_stopped_ends_what_it_does(
    shop: Any, tables: Connection, tmp_path: Path
) -> None:
    gate = tmp_path / "order.gate"
    gate.touch()
    shop.place("tea", gate=str(gate))
    with shop.start("skipmq_work") as worker:
        eventually(gate.with_suffix(".begun").exists, why="the handler begins")
        shop.place("milk")
        worker.process.terminate()
        gate.unlink()

        assert worker.ended() == 0

    assert shipments(tables) == [(1, 1)]
    assert worker.lines[-1].startswith("skipmq: stopped (1 done")
    assert counts(tables) == (1, 0, 0)


def test_handler_that_does_not_end_is_cut_off(
    shop: Any, tables: Connection, tmp_path: Path
) -> None:
    gate = tmp_path / "order.gate"
    gate.touch()
    shop.place("tea", gate=str(gate))
    with shop.start("skipmq_work", "--grace", "0.1") as worker:
        eventually(gate.with_suffix(".begun").exists, why="the handler begins")
        worker.process.terminate()

        assert worker.ended() == 1

    assert "1 handlers did not end within 0.1 seconds" in worker.log
    assert shipments(tables) == []
    assert counts(tables) == (1, 0, 0)


@pytest.mark.parametrize("queue", ["sessions", "async-sessions"])
def test_connection_of_a_handler_is_closed_as_after_a_request(
    shop: Any, tables: Connection, queue: str
) -> None:
    Sender(queue).send("1", using=tables)
    open_ = "select count(*) from pg_stat_activity where pid = %s"

    with shop.start("skipmq_work") as worker:
        ((_, pid),) = eventually(lambda: shipments(tables), why="done")
        eventually(lambda: not number(tables, open_, pid), why="it is closed")
        assert worker.process.poll() is None


@pytest.mark.parametrize(
    "queue", ["sessions", pytest.param("async-sessions", marks=pytest.mark.slow)]
)
def test_connection_that_broke_is_replaced(shop: Any, tables: Connection, queue: str) -> None:
    """One that is kept, as CONN_MAX_AGE says, and whose session the server ends."""
    shop.settings["databases"]["default"]["CONN_MAX_AGE"] = None
    Sender(queue).send("1", using=tables)

    with shop.start("skipmq_work") as worker:
        ((_, first),) = eventually(lambda: shipments(tables), why="done")
        # It is kept between two messages.
        Sender(queue).send("2", using=tables)
        _, (_, second) = eventually(lambda: (s := shipments(tables))[1:] and s, why="done")
        assert first == second
        assert number(tables, "select pg_terminate_backend(%s, 10000)", first)
        Sender(queue).send("3", using=tables)
        found = eventually(lambda: (s := shipments(tables))[2:] and s, why="done")
        worker.process.terminate()
        assert worker.ended() == 0

    assert found[2][0] == 3
    assert found[2][1] != first
    assert worker.lines[-1] == "skipmq: stopped (3 done, 1 retried)"


def test_worker_says_how_it_is(shop: Any) -> None:
    with shop.start("skipmq_work") as worker:
        eventually(lambda: worker.lines, why="it begins")
        assert worker.lines[0] == (
            "skipmq: consuming orders, sessions, async-sessions. Ctrl-C stops it."
        )


def test_worker_starts_again_when_code_changes(shop: Any) -> None:
    consumers = shop.folder / "shop" / "consumers.py"

    with shop.start("skipmq_work", "--reload") as worker:
        eventually(lambda: "consuming orders, sessions, async" in worker.log, why="it begins")
        text = consumers.read_text().replace('Queue("sessions"', 'Queue("letters"')
        consumers.write_text(text)
        began = "consuming orders, letters, async"
        # The first look at a file is what later ones are compared with.
        eventually(lambda: began in worker.log or consumers.touch(), why="it begins again")


@pytest.mark.parametrize(
    ("words", "source", "text"),
    [
        (["--concurrency", "0"], None, "argument --concurrency: '0' is not a number from 1 on"),
        (
            ["shopp"],
            None,
            "no installed app is called 'shopp'; there are admin, auth, contenttypes",
        ),
        (["auth"], None, "the app 'auth' has no consumers: there is no django.contrib.auth.consum"),
        ([], "", "no installed app has consumers: write `app = skipmq.App()`"),
        ([], "import skipmq\na = skipmq.App()", "the app has no consumer: decorate a function"),
        (["shop"], "import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        (
            [],
            "import skipmq\na, b = skipmq.App('dbname=x'), skipmq.App()",
            "the consumers are on several databases: run them one by one",
        ),
        (
            [],
            "import skipmq\na, b = skipmq.App(), skipmq.App()\nq = skipmq.Queue('orders')\n"
            "@a.consumer(q)\ndef ship(body): ...\n@b.consumer(q)\ndef ship(body): ...",
            "shop.consumers.ship and shop.consumers.ship would share the messages of 'orders'",
        ),
    ],
)
def test_consumers_that_cannot_run_are_an_error_with_the_remedy(
    manage: Any, words: list[str], source: str | None, text: str
) -> None:
    if source is not None:
        (manage.folder / "shop" / "consumers.py").write_text(source)

    with manage.start("skipmq_work", *words) as worker:
        assert worker.ended() in {1, 2}

    assert text in worker.log
    assert ("Traceback" in worker.log) == ("nowhere" in text)


def test_wrong_setting_is_an_error_with_the_remedy(manage: Any) -> None:
    manage.settings["skipmq"] = {"DATABASE": "brokr"}

    with manage.start("skipmq_work") as worker:
        assert worker.ended() == 1

    assert "'brokr', which DATABASES does not have" in worker.log
    assert "Traceback" not in worker.log


def test_database_without_the_schema_is_an_error_with_the_remedy(manage: Any) -> None:
    with manage.start("skipmq_work", "--once") as worker:
        assert worker.ended() == 1

    assert "CommandError: this database has no schema of SkipMQ" in worker.log
    assert "`manage.py migrate`" in worker.log
    assert "Traceback" not in worker.log
