"""The command line, as a person and as a program use it."""

import json
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import psycopg
import pytest

import skipmq
from skipmq.cli import cli
from support import commands
from support.commands import loaded
from support.http import NodeProcess, free_port
from support.postgres import Databases, as_node


@pytest.fixture
def url(lent: str) -> str:
    return as_node(lent)


run = commands.run


@pytest.mark.parametrize("command", ["serve", "migrate", "doctor", "config", "queue"])
def test_help_names_every_command_and_each_has_its_own(command: str) -> None:
    assert f"  {command} " in run("--help")
    assert run(command, "--help").startswith(f"Usage: skipmq {command}")


def test_no_help_has_marks_that_are_for_the_formatter() -> None:
    found = {}
    for words, command in loaded(cli):
        with click.Context(command, info_name=words) as context:
            found[words] = command.get_help(context)

    assert {"migrate", "queue send", "queue set", "queue tag", "queue move"} < set(found)
    assert [name for name, text in found.items() if re.search(r"\\|[\b\f]", text)] == []
    assert "Examples:\n    skipmq queue send orders" in found["queue send"]


def test_redrive_of_messages_that_came_from_no_queue_asks_for_a_target(url: str) -> None:
    run("queue", "create", "dead", database_url=url)
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead"}
    attribute = f"RedrivePolicy={json.dumps(policy | {'maxReceiveCount': 1})}"
    run("queue", "create", "work", database_url=url)
    run("queue", "set", "work", attribute, database_url=url)
    run("queue", "send", "dead", "direct", database_url=url)

    failed = run("queue", "redrive", "dead", "--yes", code=1, database_url=url)
    moved = run("queue", "redrive", "dead", "--to", "work", "--yes", database_url=url)

    assert "0 messages moved from dead: failed, CouldNotDetermineMessageSource" in failed
    assert "specify a target with --to" in failed
    assert "1 messages moved from dead: completed" in moved


def test_peek_and_redrive_show_and_move_dead_letters(url: str) -> None:
    policy = (
        '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead.fifo","maxReceiveCount":1}'
    )
    run("queue", "create", "dead.fifo", database_url=url)
    run("queue", "create", "work.fifo", "-a", f"RedrivePolicy={policy}", database_url=url)
    with psycopg.connect(url, autocommit=True) as connection:
        for n in range(30):
            connection.execute(
                "select skipmq.send_fifo_message('work.fifo', %s, 'g', %s)", (f"job {n}", str(n))
            )
        work = "select from skipmq.receive_fifo_messages(skipmq.queue_id('work.fifo'), 10, 0)"
        for _ in range(4):
            connection.execute(work)

    told = run("queue", "peek", "dead.fifo", "--limit", "2", database_url=url)
    dead_letters = json.loads(
        run("queue", "peek", "dead.fifo", "--limit", "100", "--json", database_url=url)
    )["messages"]
    moved = run("queue", "redrive", "dead.fifo", "--yes", database_url=url)
    left = run("queue", "peek", "dead.fifo", "--state", "visible", database_url=url)

    assert "job 0" in told
    assert "job 1" in told
    assert "job 2" not in told
    assert len(dead_letters) >= 10
    assert dead_letters[0]["attributes"]["message_group_id"] == "g"
    assert f"{len(dead_letters)} messages moved from dead.fifo: completed" in moved
    assert "no matching messages" in left
    assert "must be configured as a Dead Letter Queue" in run(
        "queue", "redrive", "work.fifo", "--yes", code=1, database_url=url
    )


def test_messages_that_match_are_moved_copied_and_deleted(url: str) -> None:
    for name in ("orders", "held"):
        run("queue", "create", name, database_url=url)
    with psycopg.connect(url, autocommit=True) as connection:
        for n in range(6):
            body = json.dumps({"n": n, "shop": n % 2})
            connection.execute("select skipmq.send_message('orders', %s)", (body,))
    one, other = ("--body", '"shop": 1'), ("--body", '"shop": 0')

    moved = run("queue", "move", "orders", "held", *one, database_url=url)
    copied = run("queue", "copy", "orders", "held", *other, "--json", database_url=url)
    declined = run("queue", "delete-matching", "orders", *other, database_url=url, code=1)
    deleted = run("queue", "delete-matching", "orders", *other, "--yes", database_url=url)

    assert "3 messages moved from orders: completed" in moved
    assert json.loads(copied) == {"moved": 3, "status": "COMPLETED"}
    assert "delete messages of orders (us-east-1, 3 messages) that match body contains" in declined
    assert "nothing was deleted" in declined
    assert "3 messages deleted from orders: completed" in deleted
    left = [
        len(json.loads(run("queue", "peek", name, "--json", database_url=url))["messages"])
        for name in ("orders", "held")
    ]
    assert left == [0, 6]
    listed = run("queue", "tasks", "orders", database_url=url).splitlines()
    assert [line.split()[1:4] for line in listed[1:]] == [
        [kind, "completed", "3"] for kind in ("delete", "copy", "move")
    ]
    assert "body contains '\"shop\": 1'" in listed[-1]
    assert "has no active task" in run(
        "queue", "tasks", "orders", "--cancel", code=1, database_url=url
    )
    for wrong in (["--yes"], ["--value", "x", "--yes"]):
        assert "--body or --attribute" in run(
            "queue", "delete-matching", "orders", *wrong, code=2, database_url=url
        )


def test_timeline_says_what_became_of_a_message(url: str) -> None:
    run("queue", "create", "orders", database_url=url)
    sent = json.loads(run("queue", "send", "orders", "tea", "--json", database_url=url))
    message_id = sent["message_id"]

    waits = run("queue", "timeline", "orders", message_id, database_url=url)
    run("queue", "receive", "orders", "--delete", database_url=url)
    gone = json.loads(run("queue", "timeline", "orders", message_id, "--json", database_url=url))
    unknown = "0" * 8 + message_id[8:]
    refused = run("queue", "timeline", "orders", unknown, code=1, database_url=url)
    sent = json.loads(run("queue", "send", "orders", "tea", "--json", database_url=url))
    run("queue", "receive", "orders", "--visibility-timeout", "600", database_url=url)
    held = run("queue", "timeline", "orders", sent["message_id"], database_url=url)

    assert waits.splitlines()[1].split()[2] == "sent"
    assert waits.splitlines()[2].startswith("since 20")
    assert held.splitlines()[-1].split()[0::3] == ["until", "in-flight"]
    assert [each["event"] for each in gone["events"]] == ["sent", "first-received", "deleted"]
    assert f"there is no message {unknown} in queue orders or in its history" in refused
    assert "Must be a UUID" in run("queue", "timeline", "orders", "x", code=1, database_url=url)


def test_queue_commands_do_what_they_say(url: str) -> None:
    assert "no queues yet" in run("queue", "list", database_url=url)
    schema = {"type": "object", "properties": {"item": {"type": "string"}}}
    attributes = ("-a", "DelaySeconds=5", "-a", f"BodySchema={json.dumps(schema)}")
    run("queue", "create", "orders", *attributes, database_url=url)
    run("queue", "create", "other", database_url=url)

    shown = json.loads(run("queue", "show", "orders", "--json", database_url=url))
    listed = json.loads(run("queue", "list", "--json", database_url=url))["queues"]
    names = json.loads(run("queue", "list", "--names", "--json", database_url=url))
    prefixed = run("queue", "list", "ord", database_url=url).splitlines()
    run("queue", "purge", "orders", "--yes", database_url=url)
    deleted = run("queue", "delete", "orders", "--yes", database_url=url)

    assert "deleted queue orders: 0 messages" in deleted
    assert (shown["delay_seconds"], shown["history_mode"]) == (5, "metadata")
    assert (shown["body_schema"], shown["body_schema_mode"]) == (schema, "describe")
    assert names == {"names": ["orders", "other"]}
    assert [each["queue"] for each in listed] == names["names"]
    assert listed[0]["visible"] == 0
    assert [line.split()[0] for line in prefixed] == ["queue", "orders"]
    assert run("queue", "list", "--names", database_url=url) == "other\n"


def test_commands_are_for_queues_in_the_region_of_the_settings(url: str) -> None:
    settings = {"database_url": url, "region": "eu-north-1"}
    run("queue", "create", "northern", **settings)
    run("queue", "send", "northern", "hello", **settings)

    shown = run("queue", "show", "northern", **settings)
    run("queue", "stats", "northern", **settings)
    refused = run("queue", "send", "northern", "hello", code=1, database_url=url)

    assert "arn:aws:sqs:eu-north-1:000000000000:northern" in shown
    assert "does not exist" in refused
    assert "SKIPMQ_REGION" in run("config", code=2, region="Eu North")
    for account in ("12345", "ourselves", "1234567890123"):
        assert "SKIPMQ_ACCOUNT" in run("config", code=2, account=account)


def test_declared_name_that_is_none_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "skipmq.toml"
    file.write_text('[queues."arn:aws:sns:eu-central-1:000000000000:orders"]')

    said = run("config", code=2, config=file)

    assert "is not the ARN of a queue: write arn:aws:sqs:REGION:ACCOUNT:NAME" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("given", ["", "n\n"], ids=["nothing", "no"])
@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("purge", "Delete all messages of orders (eu-north-1, 2 messages)?"),
        ("delete", "Delete the queue orders (eu-north-1, 2 messages) and all its messages?"),
    ],
)
def test_what_is_not_agreed_to_is_not_deleted(
    url: str, command: str, question: str, given: str
) -> None:
    place = {"database_url": url, "region": "eu-north-1"}
    run("queue", "create", "orders", **place)
    run("queue", "send", "orders", "a", "--count", "2", **place)

    declined = run("queue", command, "orders", given=given, code=1, **place)
    kept = run("queue", "peek", "orders", "--json", **place)
    agreed = run("queue", command, "orders", given="y\n", **place)

    assert question in declined
    assert "nothing was deleted" in declined
    assert len(json.loads(kept)["messages"]) == 2
    assert f"{command}d queue orders" in agreed


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ["queue", "show", "nowhere"],
            "account 000000000000, region us-east-1: `skipmq queue list` shows the others",
        ),
        (["queue", "create", "a b"], "Can only include alphanumeric characters"),
        (
            ["queue", "create", "a", "-a", "DelaySeconds=901"],
            "DelaySeconds is a whole number from 0 to 900, not '901'",
        ),
        (
            ["queue", "create", "a", "-a", "VisibilityTimeOut=1"],
            "no attribute is named VisibilityTimeOut: did you mean VisibilityTimeout?",
        ),
        (
            ["queue", "set", "there", "HistoryMode=some"],
            "HistoryMode is off, metadata or full, not 'some'",
        ),
        (["queue", "set", "there", "FifoThroughputLimit=perQueue"], "names end in .fifo"),
        (["queue", "show", "thre"], "account 000000000000, region us-east-1: did you mean there?"),
    ],
)
def test_mistake_is_one_line(url: str, words: list[str], part: str) -> None:
    run("queue", "create", "there", database_url=url)

    told = run(*words, database_url=url, code=1)

    assert part in told
    assert len(told.splitlines()) == 1


def test_wrong_use_shows_the_usage(url: str) -> None:
    assert "is not of the form NAME=VALUE" in run(
        "queue", "create", "a", "-a", "x", database_url=url, code=2
    )
    assert "No such command 'fly'" in run("fly", code=2)


def test_config_shows_values_and_sources_and_hides_passwords(tmp_path: Path) -> None:
    file = tmp_path / "skipmq.toml"
    file.write_text("workers = 3\nport = 1\n")

    shown = json.loads(
        run(
            "--config",
            str(file),
            "config",
            "--json",
            port=9000,
            database_url="postgresql://u:hush@h/d",
        )
    )

    assert shown["port"] == {"value": 9000, "source": "SKIPMQ_PORT"}
    assert shown["workers"] == {"value": 3, "source": str(file)}
    assert shown["host"] == {"value": "127.0.0.1", "source": "default"}
    assert Path(shown["data_dir"]["value"]).is_absolute()
    assert "hush" not in json.dumps(shown)


def test_bad_settings_are_told_all_at_once() -> None:
    told = run("config", code=2, port="x", workres=3, history="some", purge_cooldown=-1)

    assert len(told.splitlines()) == 4
    assert "SKIPMQ_WORKRES: there is no such setting; did you mean SKIPMQ_WORKERS?" in told
    for name in ("SKIPMQ_PORT='x'", "SKIPMQ_HISTORY='some'", "SKIPMQ_PURGE_COOLDOWN='-1'"):
        assert name in told


def test_unknown_key_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "skipmq.toml"
    file.write_text("prot = 1\n")

    assert "prot: there is no such setting; did you mean port?" in run(
        "config", code=2, config=file
    )


def test_migrate_brings_an_empty_database_up_and_then_has_nothing_to_do(
    embedded_databases: Databases,
) -> None:
    url = embedded_databases.empty()

    first, second = (run("migrate", database_url=url) for _ in range(2))

    assert "migrated to 0001_pre_first" in first
    assert "nothing to do" in second


def test_migrate_without_rights_is_one_line(embedded_databases: Databases) -> None:
    url = embedded_databases.empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create role without_rights login")
    told = run("migrate", database_url=url.replace("//postgres@", "//without_rights@"), code=1)

    assert "permission denied" in told
    assert len(told.splitlines()) == 1


def test_doctor_finds_a_healthy_node(url: str) -> None:
    printed = run("doctor", "--json", database_url=url, port=free_port())
    findings = json.loads(printed)["checks"]

    assert {f["check"] for f in findings} == {
        *("settings", "database", "schema", "roles", "broker", "counts", "replication", "port"),
        *("pages", "planner", "vacuum", "sequences", "staged", "troubles", "certificate"),
    }
    assert all(f["ok"] and not f["remedy"] for f in findings)


@pytest.mark.parametrize(
    "host",
    [pytest.param("127.0.0.1", marks=pytest.mark.slow), "0.0.0.0"],  # noqa: S104 - of a test.
)
def test_doctor_recognises_its_own_node_on_the_port(url: str, host: str) -> None:
    settings = {"database_url": url, "host": host, "port": free_port(), "auth": "off"}

    with NodeProcess(**settings, workers=1) as node:
        node.ready()
        findings = json.loads(run("doctor", "--json", **settings))["checks"]

    (port,) = (each for each in findings if each["check"] == "port")
    assert port["ok"]
    assert port["detail"] == f"{host} port {settings['port']} is used by a running SkipMQ node"


def test_doctor_names_a_port_that_another_program_has(url: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        printed = run("doctor", database_url=url, port=other.server_port, code=1)
        other.shutdown()

    assert "Stop the program that uses it, or choose another with --port" in printed


def test_doctor_names_each_problem(embedded_databases: Databases) -> None:
    urls = embedded_databases.empty(), "postgresql://127.0.0.1:1/x"
    printed = [run("doctor", "--json", database_url=url, port=free_port(), code=1) for url in urls]
    told = run("doctor", database_url=urls[1], port=free_port(), code=1)

    found = [json.loads(each)["checks"] for each in printed]
    problems = [{f["check"]: f for f in each if not f["ok"]} for each in found]
    assert problems[0]["schema"]["remedy"].startswith("run `skipmq migrate` as ")
    assert "Connection refused" in problems[1]["database"]["detail"]
    assert "SKIPMQ_DATABASE_URL" in problems[1]["database"]["remedy"]
    assert all(f["remedy"] for each in problems for f in each.values())
    assert "Connection refused. Remedy: check SKIPMQ_DATABASE_URL" in told


def test_version_is_the_packages() -> None:
    assert run("--version") == f"skipmq, version {skipmq.__version__}\n"


def test_command_on_queues_imports_the_actions_and_no_server(url: str) -> None:
    found = commands.imported("queue", "list", variables={"SKIPMQ_DATABASE_URL": url})

    assert {"skipmq.broker.node", "skipmq.actions.dispatch"} < found
    unneeded = {"alembic", "flask", "sqlalchemy", "structlog", "pygments"}
    unneeded |= {
        "skipmq.console",
        "skipmq.server.processes",
        "skipmq.server.http.door",
        "skipmq.server.web",
    }
    assert (
        found & (unneeded | {"skipmq.database.embedded", "skipmq.config.imports.elasticmq"})
        == set()
    )
