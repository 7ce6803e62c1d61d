"""Limits are exact: two nodes, consumers by HTTP and SQL, and kills never exceed one.

Triggers write down each claim, delete and change of visibility, in the order of the database.
What was in flight is counted from that: a message from its claim until its visibility ends or a
delete or a change of visibility ends it.
"""

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg
import pytest

from concurrency.planted import Fault
from concurrency.workload import start, two_nodes
from support.http import client
from support.nodes import Nodes
from support.postgres import Databases
from support.sql import Queue, receipts

QUEUE_LIMIT, GROUP_LIMIT, SECONDS = 6, 2, 5.0
_WATCH = """
create table noted (
  at timestamptz not null default clock_timestamp(), number bigint generated always as identity,
  id bigint not null, group_id text, until timestamptz, is_claim boolean not null);
create function note() returns trigger language plpgsql security definer as $$
begin
  insert into public.noted (id, group_id, until, is_claim) values (
    old.id, old.group_id, case when tg_op = 'UPDATE' then new.visible_at end,
    tg_op = 'UPDATE' and new.receive_count > old.receive_count);
  return null;
end $$;
create trigger noted after update of visible_at or delete on skipmq.message
  for each row when (old.queue_id > 0) execute function note();
"""
_KILLED = """
import sys, time, psycopg
connection = psycopg.connect(sys.argv[1], autocommit=sys.argv[3] == "1")
connection.execute("select from skipmq.receive_messages(%s, 2, 1)", (int(sys.argv[2]),))
print("received", flush=True)
time.sleep(60)
"""
# What the text of a function is without the rule.
FAULTS = {
    "claims do not take the lock": Fault(
        "hold_limits",
        (("if not exists (", "if true or not exists ("),),
    ),
    "what is in flight is counted before the lock": Fault(
        "claim_limited_messages",
        (
            (
                "and m.visible_at > v_now and m.receive_count > m.receive_base",
                "and m.visible_at > v_now and m.receive_count > m.receive_base"
                " and m.first_received_at < statement_timestamp()",
            ),
        ),
    ),
    "a claim forgets what it took of a group": Fault(
        "choose_messages", (("h.group_id is null or h.number", "true or h.number"),)
    ),
}


class Event(NamedTuple):
    at: float
    id: int
    group: str | None
    until: float | None
    is_claim: bool


def exceeded(events: list[Event]) -> list[str]:
    """Return where more is in flight than a limit allows."""
    found, until, group_of = [], dict[int, float](), dict[int, str | None]()
    for event in events:
        if event.until is None or event.until <= event.at:
            until.pop(event.id, None)
            continue
        until[event.id], group_of[event.id] = event.until, event.group
        flying = [each for each, ends in until.items() if ends > event.at]
        by_group = Counter(group_of[each] for each in flying if group_of[each])
        if len(flying) > QUEUE_LIMIT:
            found.append(f"{len(flying)} in flight at {event.at}")
        found += [
            f"{n} of {g} in flight at {event.at}" for g, n in by_group.items() if n > GROUP_LIMIT
        ]
    return found


def seeded(number: int) -> random.Random:
    return random.Random(number)  # noqa: S311 - the choices of a test.


def by_http(nodes: Nodes, queue: str, chance: random.Random, ends: float) -> None:
    while time.monotonic() < ends:
        sqs = client(chance.choice(nodes).url)
        # A node may be killed, and a receipt may be of what is no longer in flight.
        with contextlib.suppress(Exception):
            url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
            for _ in range(5):
                got = sqs.receive_message(
                    QueueUrl=url,
                    MaxNumberOfMessages=chance.randint(1, 5),
                    VisibilityTimeout=1,
                    WaitTimeSeconds=chance.choice([0, 1]),
                ).get("Messages", [])
                for each in got:
                    receipt = {"QueueUrl": url, "ReceiptHandle": each["ReceiptHandle"]}
                    time.sleep(chance.choice([0, 0.02, 1.05]))
                    match chance.randrange(4):
                        case 0:
                            sqs.change_message_visibility(**receipt, VisibilityTimeout=1)
                        case 1:
                            sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
                        case _:
                            sqs.delete_message(**receipt)


def by_sql(url: str, queue_id: int, chance: random.Random, ends: float) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < ends:
            with connection.transaction(force_rollback=chance.random() < 0.2):
                cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
                cursor.execute("select * from skipmq.receive_messages(%s, 3, 1)", (queue_id,))
                got = [row for row in cursor if row["id"] is not None]
                time.sleep(chance.choice([0, 0.01]))
            time.sleep(chance.choice([0, 0.02, 1.02]))
            connection.execute(
                "select skipmq.delete_messages(%s, %s::bigint[], %s::int[], %s::uuid[])",
                (queue_id, *receipts(got)),
            )


def killed(url: str, queue_id: int, chance: random.Random, ends: float) -> None:
    """Receive in processes that are killed, before or after they commit."""
    while time.monotonic() < ends:
        command = [sys.executable, "-c", _KILLED, url, str(queue_id), chance.choice("01")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)


def history(url: str, nodes: Nodes, seed: int) -> list[Event]:
    """Run clients at a queue with limits for some seconds; return what the triggers wrote down."""
    chance = seeded(seed)
    with psycopg.connect(url, autocommit=True) as owner:
        queue = Queue(owner, f"limited-{seed}")
        queue.set(MaximumInFlight=QUEUE_LIMIT, MaximumInFlightPerGroup=GROUP_LIMIT)
        for number in range(600):
            queue.send(str(number), group=chance.choice(["a", "b", "c", "d", None]))
        ends = time.monotonic() + SECONDS
        with ThreadPoolExecutor(12) as pool:
            tasks = [pool.submit(by_http, nodes, queue.name, seeded(n), ends) for n in range(5)]
            tasks += [pool.submit(by_sql, url, queue.id, seeded(n), ends) for n in range(3)]
            tasks.append(pool.submit(killed, url, queue.id, seeded(seed), ends))
            time.sleep(SECONDS / 2)
            nodes[0].kill()
            nodes[0].__exit__()
            nodes[0] = start(url, nodes[0].port)
            for task in tasks:
                task.result()
        rows = owner.execute(
            "select extract(epoch from n.at)::float8, n.id, n.group_id,"
            " extract(epoch from n.until)::float8, n.is_claim"
            " from noted n order by n.number"
        ).fetchall()
        owner.execute("truncate noted")
    return [Event(*row) for row in rows]


@pytest.fixture(scope="module")
def watched(embedded_databases: Databases) -> Iterator[tuple[str, Nodes]]:
    url = embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(_WATCH)
    with two_nodes(url) as nodes:
        yield url, nodes


def test_no_limit_is_exceeded_and_all_of_it_is_used(watched: tuple[str, Nodes]) -> None:
    events = history(*watched, seed=1)

    assert exceeded(events) == []
    assert sum(event.is_claim for event in events) > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(watched: tuple[str, Nodes], name: str) -> None:
    url, nodes = watched
    with psycopg.connect(url, autocommit=True) as owner:
        ((sound,),) = owner.execute(
            "select pg_get_functiondef(p.oid) from pg_proc p"
            " where p.pronamespace = 'skipmq'::regnamespace and p.proname = %s",
            (FAULTS[name].function,),
        ).fetchall()
        FAULTS[name].plant(owner)
        try:
            found: Any = any(exceeded(history(url, nodes, seed)) for seed in range(10, 16))
        finally:
            owner.execute(sound)
    assert found
