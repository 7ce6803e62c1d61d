"""The reference: each page names all that the code has, and the tables that are made of it fill."""

import inspect
import re
from dataclasses import fields
from typing import Any

import msgspec
import pytest
from msgspec import structs

from skipmq import App
from skipmq.actions.skipmq.table import EXTENSIONS
from skipmq.actions.sqs.table import ACTIONS
from skipmq.broker.access_keys import RevokedKey
from skipmq.broker.audit_log import AuditRecord
from skipmq.broker.consumers import ListedConsumer
from skipmq.broker.dead_letters import DeadLetterQueue, RedeliveringQueue, SourceQueue
from skipmq.broker.groups import MessageGroup
from skipmq.broker.inspection import NewMessage
from skipmq.broker.overview import Session
from skipmq.broker.statistics import Percentiles, QueueMinute, QueueStatistics, TimeInQueue
from skipmq.config.settings import Settings
from skipmq.database import files
from skipmq.protocol import errors
from skipmq.protocol.extensions import REQUESTS
from skipmq.protocol.queue_attributes import ATTRIBUTES
from support import pages
from support.http import ROOT

FOLDER = pages.FOLDER / "reference"


def text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def code_in(part: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", part))


def every(kind: type[errors.SqsError]) -> set[type[errors.SqsError]]:
    return {kind, *(each for below in kind.__subclasses__() for each in every(below))}


def generate() -> Any:
    """Return the module that makes tables of the code."""
    import sys  # noqa: PLC0415

    sys.path.insert(0, str(pages.FOLDER))
    try:
        import generate  # noqa: PLC0415 - from the folder of the pages.
    finally:
        sys.path.remove(str(pages.FOLDER))
    return generate


def generated(name: str) -> str:
    """Return a table as the code is."""
    return str(generate().TABLES[name]())


def test_every_error_has_its_status_and_a_remedy() -> None:
    rows = re.findall(r"^\| (`.+?`) \| (\d.*?) \| (.+?) \|$", text("errors"), re.MULTILINE)
    documented = {code: status for codes, status, _ in rows for code in code_in(codes)}

    found = {each.code: each.status for each in every(errors.SqsError)}
    remedy = "a row of app/docs/reference/errors.md has each code, its status and what to do"
    assert documented.keys() == found.keys(), remedy
    assert {
        code for code, status in found.items() if str(status) not in documented[code]
    } == set(), remedy


def test_every_sqlstate_has_its_error() -> None:
    rows = re.findall(r"^\| (`\w{5}`.*?) \| (.+?) \|$", text("errors"), re.MULTILINE)
    documented = {state: code_in(error) for states, error in rows for state in code_in(states)}

    assert documented.keys() == errors.BY_SQLSTATE.keys(), "a row of its table in errors.md"
    for state, error in errors.BY_SQLSTATE.items():
        if state not in {"SQ005", "42501"}:
            assert documented[state] == {error.code}


def test_every_action_of_sqs_is_compared() -> None:
    part = text("sqs").partition("## By action")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| .+? \|$", part, re.MULTILINE)

    assert sorted(name for row in rows for name in code_in(row)) == sorted(ACTIONS)


def test_every_action_of_ours_has_a_section_with_its_parameters() -> None:
    found = re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", text("http"), re.MULTILINE | re.DOTALL)
    sections = dict(found)

    assert sections.keys() == EXTENSIONS.keys(), "a section ### NAME of app/docs/reference/http.md"
    for name, request in REQUESTS.items():
        takes = sections[name].partition("*Returns*")[0]
        missing = {f for f in request.__struct_fields__ if f"`{f}`" not in takes}
        assert missing == set(), f"name them in backticks, in *Takes* of {name}"


# The records that actions return, without what no caller is shown.
RETURNED: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "GetQueueActivity": (QueueMinute, TimeInQueue, Percentiles),
    "ListAccessKeys": (RevokedKey,),
    "ListAuditRecords": (AuditRecord,),
    "ListConsumers": (ListedConsumer,),
    "ListDeadLetterQueues": (DeadLetterQueue, SourceQueue, RedeliveringQueue),
    "ListMessageGroups": (MessageGroup,),
    "ListQueueStatistics": (QueueStatistics,),
    "ListSessions": (Session,),
    "PeekNewestMessages": (NewMessage,),
}
UNSHOWN = {"Account", "Id", "Messages", "Place", "Policy", "Queues", "Receiver"}
UNSHOWN |= {"Region", "Repeated"}


@pytest.mark.parametrize("name", RETURNED)
def test_every_member_of_a_returned_record_is_named(name: str) -> None:
    section = re.search(rf"^### {name}\n(.*?)(?=^### |\Z)", text("http"), re.MULTILINE | re.DOTALL)
    assert section is not None
    members = {f.encode_name for record in RETURNED[name] for f in structs.fields(record)}

    assert {each for each in members - UNSHOWN if f"`{each}`" not in section[1]} == set()


def test_every_function_for_applications_and_administrators_exists() -> None:
    functions = {file.stem for file in files.functions()}
    named = set(re.findall(r"^\| `(\w+)\(", text("sql"), re.MULTILINE))

    assert {"send_message", "create_queue", "replication"} <= named <= functions


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "settings",
            {f"`SKIPMQ_{f.name.upper()}`" for f in fields(Settings)} - {"`SKIPMQ_QUEUES`"},
        ),
        ("attributes", {f"`{name}`" for name in ATTRIBUTES}),
        ("metrics", {"`skipmq_queue_number_of_messages_sent_total`", "`skipmq_database_state`"}),
        ("python", {"`App.consumer`", "`Queue.asend_many`", "`Retry.backoff`", "`ClientError`"}),
        ("commands", {"`skipmq queue send`", "`skipmq analytics report`", "`--dedup-id ID`"}),
    ],
)
def test_generated_table_is_complete(name: str, expected: set[str]) -> None:
    table = generated(name)

    assert {each for each in expected if each not in table} == set()


def test_options_of_a_consumer_are_documented() -> None:
    options = inspect.signature(App.consumer).parameters.keys() - {"self", "queue"}

    missing = {name for name in options if f"`{name}=" not in text("python")}
    assert missing == set(), "`NAME=…` in the table of app/docs/reference/python.md"


def test_metrics_of_the_alerts_are_in_the_table() -> None:
    rules = (ROOT / "deploy" / "prometheus" / "skipmq.rules.yml").read_text()
    table = generated("metrics")
    used = {re.sub(r"_(bucket|sum|count)$", "", n) for n in re.findall(r"\bskipmq_\w+", rules)}

    unknown = {name for name in used if f"`{name}`" not in table}
    assert unknown == set(), "the rules name a metric that skipmq.telemetry.metrics does not have"


def test_tables_of_the_pages_are_as_the_code_is() -> None:
    found = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.md")}
    placed = re.findall(r"<!-- table: (\w+) -->", "".join(found.values()))

    assert sorted(placed) == ["attributes", "commands", "metrics", "python", "settings"]
    stale = [name for name, page in found.items() if generate().filled(page) != page]
    assert stale == [], "write them by `make reference`"
