"""Receives of nodes that know the low watermark of a queue lose nothing below it."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from time import monotonic
from typing import Any
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

from skipmq.broker.messages import watermark
from skipmq.broker.messages.standard import StandardMessages
from skipmq.broker.messages.watermark import Scans
from skipmq.broker.queues import Queues
from skipmq.database.partitions import Database
from skipmq.database.replication import Replication
from skipmq.database.statement import TEXT, Statement
from skipmq.protocol.call import Recipient
from skipmq.protocol.identity import QueueName
from support.http import eventually
from support.postgres import Connection, Databases
from support.sql import Queue, number

NODES = 2
WRITERS = 3
WHO = st.integers(0, WRITERS - 1)
WHICH = st.integers(0, NODES - 1)
FEW = st.integers(1, 4)
SET_CLOCK = Statement("select set_config('skipmq.clock_offset', $1, false)", TEXT)


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
        replication = Replication(self.database)
        self.messages = StandardMessages(self.database, replication, scans=self.scans)
        self.clock = clock

    def receive(self, name: QueueName, limit: int, timeout: int) -> int:
        """Receive up to `limit` messages; return how many there were."""
        return self._loop.run(self._receive(name, limit, timeout))

    async def _receive(self, name: QueueName, limit: int, seconds: int) -> int:
        deadline = monotonic()
        await self.database.rows(SET_CLOCK, (self.clock.setting,), deadline=deadline)
        queue = await self.queues.find(name, deadline)
        assert queue is not None
        claim = self.messages.receive(queue, limit, seconds, deadline, Recipient())
        return len((await claim).messages)


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
        # Sessions that leave their transaction open are held soon, and not at once.
        patch.setattr(watermark, "HELD_AFTER", 500_000)
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
    # How often a watermark was known, and a transaction held.
    known = held = 0

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
        watched = self.world.receivers[0].scans.scan(self.queue.id)
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
            "select id, receive_count, message_id, received_at"
            " from skipmq.receive_messages(%s, %s, %s)"
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
            " %s::uuid[], %s::timestamptz[], %s::int[])",
            self.queue.id,
            [row[0] for row in held],
            [row[1] for row in held],
            [row[2] for row in held],
            [row[3] for row in held],
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
            mark = receiver.scans.scan(self.queue.id).watermark
            if mark.low is not None and which not in self.unaware:
                type(self).known += 1
                type(self).held += mark.held[0] is not None
                for shard, low in ((0, mark.low), (2, mark.received_low)):
                    begin = self.scanned_from(low, mark.held)
                    assert self.waiting(self.now(), below=begin, shard=shard) == 0

    def queue_name(self) -> QueueName:
        return QueueName("000000000000", "us-east-1", self.name)

    def now(self) -> datetime:
        """Return the time by the clock of all sessions."""
        now = number(
            self.world.owner, "select clock_timestamp() + %s::interval", self.clock.setting
        )
        assert isinstance(now, datetime)
        return now

    def scanned_from(self, low: int | None, held: watermark.Held) -> datetime:
        """Return where a claim with this watermark begins, as the database finds it."""
        begin = number(
            self.world.owner,
            "select greatest(skipmq.scan_from('epoch'::timestamptz + %s * interval '1 microsecond',"
            " %s::bigint[], %s::bigint[]), '0001-01-01 00:00+00')",
            low,
            *held,
        )
        assert isinstance(begin, datetime)
        return begin

    def waiting(self, by: datetime, below: datetime | None = None, shard: int | None = None) -> int:
        """Return how many messages, visible by a time (below a watermark), nobody has locked."""
        owner = self.world.owner
        with owner.transaction(force_rollback=True):
            rows = owner.execute(
                "select id from skipmq.message where queue_id = %s and visible_at <= %s"
                " and visible_at < coalesce(%s::timestamptz, 'infinity')"
                " and shard = coalesce(%s, shard)"
                " for update skip locked",
                (self.queue.id, by, below, shard),
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


def test_transaction_that_stays_open_holds_no_claim_back_and_its_message_comes(
    world: World,
) -> None:
    clock = Clock()
    queue = Queue(world.owner, "held")
    name = QueueName("000000000000", "us-east-1", "held")
    receiver, held = world.receivers[0], world.sessions[0]
    receiver.restart(clock)
    mark = receiver.scans.scan(queue.id)

    def received() -> int:
        clock.ahead += 0.3
        clock.offset += 0.3
        return receiver.receive(name, 10, 600)

    # Of the databases of other tests too: all transactions of a server are in one order.
    eventually(lambda: received() == 0 and mark.watermark.low is not None)
    (opened,) = Session(held, clock).run(
        "select extract(epoch from skipmq.clock())::float8 * 1000000"
        " from skipmq.send_message('held', 'late')"
    )[0]
    other = Session(world.sessions[1], clock)
    other.run("select skipmq.send_message('held', 'early')")
    other.end(commit=True)
    assert received() == 1
    eventually(lambda: received() == 0 and (mark.watermark.low or 0) > opened)

    held.commit()
    assert received() == 1
    assert queue.counts() == (0, 2, 0)


def test_node_begins_each_sweep_with_what_was_received_before(world: World) -> None:
    clock = Clock()
    queue = Queue(world.owner, "returned")
    name = QueueName("000000000000", "us-east-1", "returned")
    receiver = world.receivers[0]
    receiver.restart(clock)
    for body in ("first", "second", "third"):
        queue.send(body)
    for timeout in (1, 600):
        assert receiver.receive(name, 1, timeout) == 1
    clock.ahead += 2.0
    clock.offset += 2.0

    assert receiver.receive(name, 1, 600) == 1

    twice = "select body from skipmq.message where queue_id = %s and receive_count = 2"
    assert world.owner.execute(twice, (queue.id,)).fetchall() == [("first",)]


def run(world: World, *, examples: int, steps: int) -> type[WatermarkMachine]:
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
    return Machine


def test_receives_of_two_nodes_lose_nothing_below_their_watermarks(world: World) -> None:
    run(world, examples=10, steps=50)


@pytest.mark.slow
def test_receives_of_two_nodes_lose_nothing_below_their_watermarks_at_length(world: World) -> None:
    machine = run(world, examples=1000, steps=80)

    # Few examples may have none: how often depends on the server's other transactions, too.
    assert machine.held > 0
