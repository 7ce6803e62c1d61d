"""What is known of the low watermark, and that nothing is lost below it."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from skipmq.database import Database, Replication, Statement
from skipmq.database.statement import TEXT
from skipmq.delivery import Messages, Queues, watermark
from skipmq.delivery.watermark import Scans
from skipmq.model import QueueName
from support.http import eventually
from support.postgres import Connection, Databases
from support.sql import Queue, number

NODES = 2
WRITERS = 3
WHO = st.integers(0, WRITERS - 1)
WHICH = st.integers(0, NODES - 1)
FEW = st.integers(1, 4)
SET_CLOCK = Statement("select set_config('skipmq.clock_offset', $1, false)", TEXT)


class Probe(NamedTuple):
    """What a probe returns, as psycopg reads it."""

    read_at: datetime
    oldest_xid: int
    xid: int
    first_visible_at: datetime | None


def probe(connection: Connection, queue: Queue, start: datetime | None = None) -> Probe:
    row = connection.execute(
        "select read_at, oldest_xid, xid, first_visible_at from skipmq.low_watermark(%s, %s)",
        (queue.id, start),
    ).fetchone()
    assert row is not None
    return Probe(*row)


def probe_past(connection: Connection, queue: Queue, xid: int) -> Probe:
    """Probe when all transactions up to this one are done, in other databases too."""

    def found() -> Probe | None:
        seen = probe(connection, queue)
        return seen if seen.oldest_xid > xid else None

    seen: Probe = eventually(found, why=f"transaction {xid} is past")
    return seen


def test_probe_finds_the_first_message_from_a_time_on(orders: Queue) -> None:
    orders.send("first")
    between = probe(orders.connection, orders).read_at
    orders.send("second")

    first = probe(orders.connection, orders).first_visible_at
    second = probe(orders.connection, orders, between).first_visible_at

    assert first is not None
    assert second is not None
    assert first < between < second


def test_probe_of_an_empty_queue_finds_nothing(orders: Queue) -> None:
    assert probe(orders.connection, orders).first_visible_at is None


def test_probe_while_a_writer_runs_says_that_it_runs(orders: Queue, database: str) -> None:
    with psycopg.connect(database) as writer:
        before = probe(orders.connection, orders)
        orders.on(writer).send("late")
        # Who began before the first probe is done.
        during = probe_past(orders.connection, orders, before.xid)
        meanwhile = probe(orders.connection, orders)
        writer.commit()
    after = probe_past(orders.connection, orders, during.xid)

    assert meanwhile.oldest_xid < during.xid  # The writer is not done.
    assert after.first_visible_at is not None


def test_probe_under_a_snapshot_held_open_says_that_nobody_writes(
    orders: Queue, database: str
) -> None:
    with psycopg.connect(database) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from skipmq.queue")
        first = probe(orders.connection, orders)

        assert probe_past(orders.connection, orders, first.xid)


@pytest.mark.parametrize("time", ["-infinity", "infinity"])
def test_probe_of_a_message_that_was_put_out_of_time_by_hand_succeeds(
    orders: Queue, time: str
) -> None:
    orders.send("parked")
    orders.connection.execute(
        "update skipmq.message set visible_at = %s where queue_id = %s", (time, orders.id)
    )

    first = probe(orders.connection, orders).first_visible_at

    assert first is None if time == "infinity" else first is not None


class Clock:
    """A stopwatch and the clocks of all sessions, moved together."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.offset = 0.0

    def stopwatch(self) -> float:
        return monotonic() + self.ahead

    @property
    def setting(self) -> str:
        return f"{self.offset:.6f} s"


class Session:
    """A program that sends and receives in its own transactions."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self.connection = connection
        self.clock = clock
        self.held: list[tuple[int, int, datetime]] = []

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        # A rollback takes the setting back: it is made each time.
        self.connection.execute(
            "select set_config('skipmq.clock_offset', %s, false)", (self.clock.setting,)
        )
        try:
            return self.connection.execute(statement, parameters).fetchall()
        except psycopg.errors.LockNotAvailable:  # Another has it, in a transaction that is open.
            self.connection.rollback()
            return []

    def end(self, *, commit: bool) -> None:
        if commit:
            self.connection.commit()
        else:
            self.connection.rollback()


class Receiver:
    """What a node receives with, over one connection; `loop` runs it."""

    def __init__(self, url: str, loop: asyncio.Runner) -> None:
        self.database = Database(url, size=1)
        self.queues = Queues(self.database)
        self._loop = loop

    def restart(self, clock: Clock) -> None:
        self.scans = Scans(clock.stopwatch)
        self.messages = Messages(self.database, Replication(self.database), scans=self.scans)
        self.clock = clock

    def receive(self, name: QueueName, limit: int, timeout: int) -> int:
        """Receive up to `limit` messages; return how many there were."""
        return self._loop.run(self._receive(name, limit, timeout))

    async def _receive(self, name: QueueName, limit: int, seconds: int) -> int:
        deadline = monotonic()
        await self.database.rows(SET_CLOCK, (self.clock.setting,), deadline=deadline)
        queue = await self.queues.get(name, deadline)
        assert queue is not None
        return len((await self.messages.receive(queue, limit, seconds, deadline)).messages)


@dataclass
class World:
    owner: Connection
    sessions: list[Connection]
    receivers: list[Receiver]
    numbers: Iterator[int] = field(default_factory=count)


@pytest.fixture(scope="module")
def world(embedded_databases: Databases) -> Iterator[World]:
    url = embedded_databases.migrated()
    with ExitStack() as stack:
        # Probe whenever a sweep is due: of so few messages a node would never.
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(watermark, "PROBE_AFTER_CLAIMED", 0)
        owner = stack.enter_context(psycopg.connect(url, autocommit=True))
        impatient = psycopg.conninfo.make_conninfo(url, options="-c lock_timeout=20ms")
        sessions = [stack.enter_context(psycopg.connect(impatient)) for _ in range(WRITERS)]
        loop = stack.enter_context(asyncio.Runner())
        receivers = [Receiver(url, loop) for _ in range(NODES)]
        for receiver in receivers:
            stack.callback(receiver.database.close)
        yield World(owner, sessions, receivers)


class WatermarkMachine(RuleBasedStateMachine):
    """Two nodes and three programs on one queue: late commits, rollbacks, a clock put back."""

    world: World
    # How often a watermark was known.
    known = 0

    @initialize()
    def begin(self) -> None:
        self.clock = Clock()
        self.name = f"q{next(self.world.numbers)}"
        self.queue = Queue(self.world.owner, self.name)
        self.sessions = [Session(connection, self.clock) for connection in self.world.sessions]
        for receiver in self.world.receivers:
            receiver.restart(self.clock)
        # Since the clock was put back these have not claimed.
        self.unaware: set[int] = set()
        # One node begins with a watermark, which takes two probes.
        watched = self.world.receivers[0].scans.of(self.queue.id)
        for _ in range(100):
            if watched.watermark.low is not None:
                break
            self.advance(0.3)
            self.world.receivers[0].receive(self.queue_name(), 1, 600)

    @rule(who=WHO, number=FEW, delay=st.sampled_from([0, 0, 0, 1]))
    def send(self, who: int, number: int, delay: int) -> None:
        nothing = [None] * number
        self.sessions[who].run(
            "select from skipmq.send_messages(%s, %s::uuid[], %s::text[], %s::text[], %s::int[],"
            " %s::text[], %s::text[])",
            self.queue.id,
            [str(uuid4()) for _ in range(number)],
            ["body"] * number,
            nothing,
            [delay] * number,
            nothing,
            nothing,
        )

    @rule(who=WHO, number=FEW, timeout=st.sampled_from([0, 1, 600]))
    def receive_in_a_transaction(self, who: int, number: int, timeout: int) -> None:
        session = self.sessions[who]
        rows = session.run(
            "select id, receive_count, received_at from skipmq.receive_messages(%s, %s, %s)"
            " where id is not null",
            self.queue.id,
            number,
            timeout,
        )
        session.held += rows

    @rule(who=WHO)
    def make_visible(self, who: int) -> None:
        session = self.sessions[who]
        held, session.held = session.held[:2], session.held[2:]
        session.run(
            "select from skipmq.change_visibility(%s, %s::bigint[], %s::int[],"
            " %s::timestamptz[], %s::int[])",
            self.queue.id,
            [row[0] for row in held],
            [row[1] for row in held],
            [row[2] for row in held],
            [0] * len(held),
        )

    @rule(who=WHO, commit=st.booleans())
    def end(self, who: int, commit: bool) -> None:
        self.sessions[who].end(commit=commit)

    @rule(seconds=st.sampled_from([0.01, 0.3, 0.3, 2.0, 70.0]))
    def advance(self, seconds: float) -> None:
        self.clock.ahead += seconds
        self.clock.offset += seconds

    @rule(seconds=st.sampled_from([0.2, 1.0, 30.0]))
    def put_the_clock_back(self, seconds: float) -> None:
        self.clock.offset -= seconds
        self.unaware = set(range(NODES))

    @rule(
        which=WHICH,
        limit=st.sampled_from([1, 2, 10, 10]),
        timeout=st.sampled_from([1, 600]),
        after=st.sampled_from([0.0, 0.3, 0.3]),
    )
    def receive(self, which: int, limit: int, timeout: int, after: float) -> None:
        self.advance(after)
        receiver, asked = self.world.receivers[which], self.now()
        got = receiver.receive(self.queue_name(), limit, timeout)
        if got < limit and which not in self.unaware:
            # What a claim says that found too little: there was no more.
            assert self.waiting(asked) == 0
        self.unaware.discard(which)

    @invariant()
    def nothing_is_visible_below_a_watermark(self) -> None:
        for which, receiver in enumerate(self.world.receivers):
            known = receiver.scans.of(self.queue.id).watermark.low
            if known is not None and which not in self.unaware:
                type(self).known += 1
                assert self.waiting(self.now(), below=known) == 0

    def queue_name(self) -> QueueName:
        return QueueName("000000000000", "us-east-1", self.name)

    def now(self) -> datetime:
        """Return the time by the clock of all sessions."""
        now = number(
            self.world.owner, "select clock_timestamp() + %s::interval", self.clock.setting
        )
        assert isinstance(now, datetime)
        return now

    def waiting(self, by: datetime, below: int | None = None) -> int:
        """Return how many messages, visible by a time (below a watermark), nobody has locked."""
        owner = self.world.owner
        with owner.transaction(force_rollback=True):
            rows = owner.execute(
                "select id from skipmq.message where queue_id = %s and visible_at <= %s"
                " and visible_at <"
                " coalesce('epoch'::timestamptz + %s * interval '1 microsecond', 'infinity')"
                " for update skip locked",
                (self.queue.id, by, below),
            ).fetchall()
        return len(rows)

    def teardown(self) -> None:
        for session in self.sessions:
            session.end(commit=True)
        # What they sent with a delay of a second is visible, and what they hid for one.
        self.advance(2.0)
        asked = self.now()
        for which, receiver in enumerate(self.world.receivers):
            if which in self.unaware:
                receiver.receive(self.queue_name(), 1, 600)
            for _ in range(200):
                if receiver.receive(self.queue_name(), 10, 600) < 10:
                    break
            note(f"node {which} has received all")
            assert self.waiting(asked) == 0


def run(world: World, *, examples: int, steps: int) -> None:
    class Machine(WatermarkMachine):
        pass

    Machine.world = world
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    assert Machine.known >= examples


def test_receives_of_two_nodes_lose_nothing_below_their_watermarks(world: World) -> None:
    run(world, examples=60, steps=50)


@pytest.mark.slow
def test_receives_of_two_nodes_lose_nothing_below_their_watermarks_at_length(world: World) -> None:
    run(world, examples=1000, steps=80)
