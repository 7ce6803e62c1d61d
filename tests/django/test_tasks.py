"""The backend for Django's tasks: of Django 6, or of the package for 5.2."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from support.http import eventually
from support.postgres import Connection
from support.sql import number

BACKEND = "skipmq.django.tasks.SkipMQBackend"
NIGHTLY = {"task": "shop.tasks.add", "expression": "0 3 * * *", "args": [7], "kwargs": {"b": 1}}
TASKS: dict[str, Any] = {
    "default": {"BACKEND": BACKEND, "OPTIONS": {"SCHEDULES": {"nightly": NIGHTLY}}},
    "patient": {"BACKEND": BACKEND, "QUEUES": ["letters"], "OPTIONS": {"ATTEMPTS": 2}},
    "exact": {"BACKEND": BACKEND, "QUEUES": ["exact"], "OPTIONS": {"ATOMIC": True}},
}
RUN = "select skipmq.change_schedule('nightly', 'run')"
ENQUEUE = """
import json
from datetime import timedelta
from django.db import transaction
from django.utils import timezone
from shop import orders, tasks
from skipmq.django.tasks.framework import InvalidTask

ids = {}
with transaction.atomic():
    ids["add"] = tasks.add.enqueue(2, b=3).id
try:
    with transaction.atomic():
        ids["refused"] = tasks.add.enqueue(2, b=4).id
        raise orders.RefusedError
except orders.RefusedError:
    pass
ids["add_later"] = tasks.add_later.enqueue(2, 5).id
ids["attempt"] = tasks.attempt.enqueue("tea").id
ids["fail"] = tasks.fail.enqueue("no tea").id
ids["fail_once"] = tasks.fail_once.enqueue().id
ids["unknown"] = tasks.add.enqueue(1).id
for how in ("exit", "cancelled", "error", "value"):
    ids[how] = tasks.end_oddly.enqueue(how).id
later = timezone.now() + timedelta(hours=1)
ids["tomorrow"] = tasks.add.using(run_after=later).enqueue(1, b=1).id
for how in ({"priority": 1}, {"run_after": later + timedelta(days=3)}, {"queue_name": "nowhere"}):
    try:
        tasks.add.using(**how)
    except InvalidTask as error:
        ids[str(*how)] = str(error)
print(json.dumps(ids))
"""
RESULTS = """
import json, sys
from skipmq.django.tasks.framework import TaskResultDoesNotExist, task_backends
found = {{}}
for name, each in {ids}.items():
    try:
        result = task_backends["default"].get_result(each)
    except TaskResultDoesNotExist:
        found[name] = None
        continue
    value = result.return_value if result.status == "SUCCESSFUL" else None
    errors = [error.exception_class.__name__ for error in result.errors]
    found[name] = [result.status, value, errors, len(result.worker_ids), result.task.name]
print(json.dumps(found))
"""


@pytest.fixture
def tasks(shop: Any) -> Any:
    """Give the project with its tasks and their queues."""
    shop.settings["tasks"] = TASKS
    failed = {"deadLetterTargetArn": "letters-failed", "maxReceiveCount": 100}
    queues = shop.settings["skipmq"]["QUEUES"]
    queues |= {"letters-failed": {}, "letters": {"RedrivePolicy": failed}}
    shop.run("migrate", "-v0")
    return shop


def shell(project: Any, program: str) -> Any:
    return json.loads(project.run("shell", "-v0", "-c", program).splitlines()[-1])


def test_tasks_are_enqueued_with_the_transaction_and_their_results_are_kept(
    tasks: Any, tables: Connection
) -> None:
    ids = shell(tasks, ENQUEUE)
    with tasks.start("skipmq_work", "--once", "skipmq_tasks") as worker:
        worker.ended()
    found = shell(tasks, RESULTS.format(ids={k: v for k, v in ids.items() if len(v) == 32}))

    assert found["add"] == ["SUCCESSFUL", {"sum": 5}, [], 1, "add"]
    assert found["refused"] is None
    assert found["add_later"] == ["SUCCESSFUL", 7, [], 1, "add_later"]
    assert found["attempt"] == ["SUCCESSFUL", [1, "RUNNING", "tea"], [], 1, "attempt"]
    assert found["fail"] == ["FAILED", None, ["ValueError"], 1, "fail"]
    assert found["unknown"] == ["FAILED", None, ["TypeError"], 1, "add"]
    assert found["tomorrow"] == ["READY", None, [], 0, "add"]
    odd = {"exit": "SystemExit", "cancelled": "CancelledError", "error": "ValueError"}
    for how, name in (odd | {"value": "ValueRefusedError"}).items():
        assert found[how] == ["FAILED", None, [name], 1, "end_oddly"]
    assert ids["priority"] == "Backend does not support setting priority of tasks."
    assert ids["run_after"].startswith("run_after is at most three days ahead")
    assert ids["queue_name"] == "Queue 'nowhere' is not valid for backend."
    assert number(tables, "select count(*) from shop_order") == 1

    # What is received before its time is sent again: a receive would count for a redrive policy.
    left = "select receive_count, visible_at > now() + interval '14 minutes' from skipmq.message"
    own = f"where queue_id > 0 and body like '%{ids['tomorrow']}%'"
    tables.execute(f"update skipmq.message set visible_at = now() {own}")  # type: ignore[arg-type]
    # Declared by the first worker.
    assert [number(tables, RUN), number(tables, RUN)] == [1, 1]
    with tasks.start("skipmq_work", "--once", "skipmq_tasks") as worker:
        worker.ended()
    assert tables.execute(f"{left} {own}").fetchall() == [(0, True)]  # type: ignore[arg-type]
    done = "select count(*) from skipmq_tasks_taskrun where return_value = %s and status = %s"
    assert number(tables, done, '{"sum": 8}', "SUCCESSFUL") == 2


def test_failed_task_is_tried_again_and_then_dead_lettered(tasks: Any, tables: Connection) -> None:
    program = "from shop import tasks\nimport json\nprint(json.dumps([{}]))"
    again = shell(tasks, program.format("tasks.fail_once.enqueue().id"))
    failed = shell(
        tasks,
        program.format(
            "tasks.fail.using(backend='patient', queue_name='letters').enqueue('no').id"
        ),
    )
    done = "select count(*) from skipmq_tasks_taskrun where finished_at is not null"
    with tasks.start("skipmq_work", "skipmq_tasks") as worker:
        eventually(lambda: number(tables, done) == 2, why="both have ended")
        worker.process.terminate()
        assert worker.ended() == 0
    found = shell(tasks, RESULTS.format(ids={"again": again[0], "failed": failed[0]}))

    assert found["again"] == ["SUCCESSFUL", "sent", ["ValueError"], 2, "fail_once"]
    assert found["failed"] == ["FAILED", None, ["ValueError", "ValueError"], 2, "fail"]
    dead = (
        "select count(*) from skipmq.message m join skipmq.queue q using (queue_id)"
        " where q.name = 'letters-failed'"
    )
    assert number(tables, dead) == 1


def test_atomic_task_of_a_worker_that_is_killed_is_done_once(
    tasks: Any, tables: Connection, tmp_path: Path
) -> None:
    gate = tmp_path / "order.gate"
    gate.touch()
    program = f"from shop import tasks\nprint(tasks.ship.enqueue(7, {str(gate)!r}).id)"
    tasks.run("shell", "-v0", "-c", program)
    with tasks.start("skipmq_work", "skipmq_tasks") as worker:
        eventually(gate.with_suffix(".begun").exists, why="the task has written")
        worker.process.kill()
        assert worker.ended() == -signal.SIGKILL
    gate.unlink()
    assert number(tables, "select count(*) from shop_shipment") == 0
    tables.execute("update skipmq.message set visible_at = now() where queue_id > 0")

    with tasks.start("skipmq_work", "skipmq_tasks") as worker:
        run = "select status from skipmq_tasks_taskrun"
        eventually(lambda: tables.execute(run).fetchall() == [("SUCCESSFUL",)], why="it is done")
        worker.process.terminate()
        assert worker.ended() == 0

    assert number(tables, "select count(*) from shop_shipment") == 1
    assert (
        number(
            tables,
            "select cardinality(array(select jsonb_array_elements(worker_ids)))"
            " from skipmq_tasks_taskrun",
        )
        == 2
    )


def test_backend_that_cannot_be_is_found_by_the_check(manage: Any) -> None:
    manage.settings["tasks"] = {
        "default": {
            "BACKEND": BACKEND,
            "QUEUES": ["lines.fifo"],
            "OPTIONS": {"ATEMPTS": 3, "KEEP_DAYS": 0, "SCHEDULES": {"nightly": {"task": "x"}}},
        },
    }

    said = manage.run("check", code=1)

    for text in (
        "TASKS['default'] has the unknown option 'ATEMPTS'.",
        "TASKS['default'] has KEEP_DAYS 0.",
        "TASKS['default'] has the schedule 'nightly': {'task': 'x'}.",
        "TASKS['default'] has the FIFO queue 'lines.fifo'.",
    ):
        assert f"(skipmq.E003) {text}" in said
