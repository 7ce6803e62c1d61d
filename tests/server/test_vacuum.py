"""What becomes of the space of messages that are gone."""

import json
import re
from pathlib import Path
from typing import Any

import psycopg

from skipmq.database import schema
from support import servers
from support.commands import invoke
from support.http import ROOT, environment, free_port
from support.postgres import Databases
from support.sql import Queue, number

RUNBOOK = (ROOT / "app" / "docs" / "operate" / "runbook.md").read_text(encoding="utf-8")
MESSAGES, BATCH = 10_000, 1_000
TABLE = "select pg_relation_size('skipmq.message')"
INDEXES = "select pg_indexes_size('skipmq.message')"


def doctor(data: Path, settings: str) -> dict[str, Any]:
    """Return what doctor finds of vacuum, on a server with settings of its own."""
    data.mkdir(mode=0o711)
    (data / "local.conf").write_text(settings)
    (data / "local.conf").chmod(0o644)
    with servers.start(data) as server:
        schema.migrate(server.url)
        settings = {"database_url": server.url, "port": free_port()}
        done = invoke(("doctor", "--json"), environment(settings))
    findings = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    found: dict[str, Any] = findings["vacuum"]
    assert done.code == int(not found["ok"]), done.stdout
    return found


def test_doctor_names_a_pause_of_vacuum_that_is_too_long(data: Path) -> None:
    found = doctor(data, "autovacuum_naptime = 1min\n")

    assert found["ok"]
    assert found["detail"].startswith("every 60 s: tables stay smaller with")
    assert "autovacuum_naptime = 10s" in found["detail"]


def test_doctor_calls_it_a_problem_when_vacuum_is_off(data: Path) -> None:
    found = doctor(data, "autovacuum = off\n")

    assert not found["ok"]
    assert "alter system set autovacuum = on" in found["detail"]


def test_runbook_gives_the_space_of_a_purge_back(embedded_databases: Databases) -> None:
    section = RUNBOOK.partition("**After a purge**")[2].partition("###")[0]
    commands = re.findall(r"^psql -d skipmq -c '(.*)'$", section, re.MULTILINE)
    with psycopg.connect(embedded_databases.migrated(), autocommit=True) as owner:
        orders = Queue(owner)
        empty = number(owner, TABLE)
        for _ in range(MESSAGES // BATCH):
            orders.send(*["x" * 500] * BATCH)
        full, indexes = number(owner, TABLE), number(owner, INDEXES)
        owner.execute("select skipmq.purge_queue(%s)", (orders.id,))
        while number(owner, "select skipmq.clear_retired()"):
            pass
        assert number(owner, TABLE) == full > 3 * empty

        for command in commands:
            owner.execute(command)

        assert number(owner, TABLE) == empty
        assert number(owner, INDEXES) < indexes
