"""What a node says when it is ready: addresses that answer, and commands that work as they are."""

import re
import subprocess
from pathlib import Path

import psycopg

from support.http import NodeProcess, client, environment, eventually, raw


def named(node: NodeProcess) -> tuple[str, str, str, str | None]:
    """Return the console, the commands and the URL of the database that a ready node names."""
    line = eventually(lambda: [text for text in node.lines if "Console: " in text])[0]
    found = re.fullmatch(
        "Console: (.*)  SQL: (.*?)(?:  Database: (.*))?  Other commands: (.*)", line
    )
    assert found is not None, line
    console, sql, database, other = found.groups()
    return console, sql, other, database


def shell(line: str) -> str:
    """Return what a line prints in a shell that has no settings of SkipMQ."""
    done = subprocess.run(
        ["sh", "-c", line], env=environment({}), capture_output=True, text=True, check=True
    )
    return done.stdout


def test_start_names_the_console_and_commands_that_work(public_folder: Path) -> None:
    folder = public_folder / "a data folder"
    with NodeProcess("--data-dir", str(folder)) as node:
        console, sql, other, database = named(node.ready())

        page = raw(console)
        selected = shell(f"{sql} -XAtc 'select count(*) from skipmq.queue'")
        listed = shell(other)
        assert database is not None
        with psycopg.connect(database) as connection:
            connection.execute("select skipmq.create_queue('orders')")

    assert page.status == 200
    assert selected == "0\n"
    assert "Usage: skipmq [OPTIONS] COMMAND" in listed


def test_start_of_a_temporary_node_names_its_database() -> None:
    with NodeProcess("--ephemeral") as node:
        client(node.ready().url).create_queue(QueueName="orders")

        _, sql, _, database = named(node)

        assert shell(f"{sql} -XAtc 'select name from skipmq.queue'") == "orders\n"
        assert database is None
