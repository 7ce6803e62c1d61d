"""One who sends, receives and deletes by SQL, in transactions that stay open for a while."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Lock
from typing import Any
from uuid import uuid4

import psycopg

from cluster.history import Op, Type
from concurrency.clients import SHOWN, User, World
from concurrency.queues import Queue, Topic, attributes_of, priority_of
from support.postgres import as_node

_LIMIT = 2


class SqlUser(User):
    """Runs one transaction after the other; what it does counts from the commit on."""

    def __init__(self, world: World, name: str, one_at_a_time: Lock) -> None:
        super().__init__(world, name)
        self._one_at_a_time = one_at_a_time

    def run(self) -> None:
        with psycopg.connect(as_node(self.world.database)) as connection:
            while self.world.open():
                with self._one_at_a_time:
                    self._run_one(connection)
                self.nap(0.3)
        self.close()

    def _run_one(self, connection: psycopg.Connection[Any]) -> None:
        """Send and receive; commit, or roll back."""
        queue = self.a_queue()
        topics = self.world.topics
        ops: list[Op] = []
        outcome: Type = "fail"
        error, begun = "rolled back", time.monotonic()
        try:
            if self.chance.random() < 0.7:
                ops += [self._sent(connection, queue) for _ in range(self.chance.randint(1, 2))]
            if topics and self.chance.random() < 0.5:
                ops.append(self._published(connection, self.chance.choice(topics)))
            if self.chance.random() < 0.7:
                ops += self._received(connection, queue)
            self.nap(0.8)
            begun = time.monotonic()
            if self.chance.random() < 0.7:
                outcome, error = "info", "not committed for certain"
                connection.commit()
                outcome, error = "ok", ""
        except psycopg.Error as failure:
            error = str(failure)
        finally:
            connection.rollback()
        self._note(ops, outcome, error, begun, time.monotonic())

    def _note(
        self, ops: list[Op], outcome: Type, error: str, committing: float, ended: float
    ) -> None:
        """Write down what came of a transaction: a send is there from its commit on."""
        for op in ops:
            if op.op in ("send", "publish"):
                made = replace(op, type=outcome, t_invoke=committing, t_ok=ended, error=error)
            elif op.op == "delete":
                made = replace(op, type=outcome, t_ok=ended, error=error)
            elif outcome == "ok":
                # Nobody else could have it from the statement on.
                made = replace(op, type="ok")
            else:
                made = replace(op, type=outcome, t_ok=ended, message_id="", error=error)
            self.world.history.add(made)

    def _sent(self, connection: psycopg.Connection[Any], queue: Queue) -> Op:
        value, group = self.a_message(queue)
        call = (
            "select skipmq.send_message(%s, %s, p_group_id => %s, p_deduplication_id => %s,"
            " p_priority => %s)::text"
        )
        known = value if queue.deduplicates else None
        parameters = [queue.name, value, group or None, known, priority_of(value)]
        if queue.fifo:
            call = "select skipmq.send_fifo_message(%s, %s, %s, %s)::text"
            parameters = parameters[:-1]
        ((message_id,),) = connection.execute(call, parameters).fetchall()
        return self._op("send", queue, value=value, group=group, message_id=message_id)

    def _published(self, connection: psycopg.Connection[Any], topic: Topic) -> Op:
        value, group = self.a_message(topic)
        attributes = json.dumps(attributes_of(value))
        known = value if topic.deduplicates else None
        connection.execute(
            "select skipmq.publish(%s, %s, %s, null, %s, %s)",
            (topic.name, value, attributes, group or None, known),
        )
        return self._op("publish", topic, value=value, group=group)

    def _received(self, connection: psycopg.Connection[Any], queue: Queue) -> Iterator[Op]:
        fifo = "_fifo" if queue.fifo else ""
        ((number,),) = connection.execute("select skipmq.queue_id(%s)", (queue.name,)).fetchall()
        keeps = self.chance.random() < 0.5
        timeout = 3 if keeps else 20
        begun = time.monotonic()
        cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
        rows = cursor.execute(
            f"select * from skipmq.receive{fifo}_messages(%s, %s, %s)",
            (number, self.chance.randint(1, _LIMIT), timeout),
        ).fetchall()
        rows = [row for row in rows if row["id"] is not None]
        received = [
            shown_row(self._op("receive", queue, begun, visibility=timeout), place, row)
            for place, row in enumerate(rows)
        ]
        yield from received
        if received and not keeps:
            begun = time.monotonic()
            connection.execute(
                f"select skipmq.delete{fifo}_messages(%s, %s::bigint[], %s::int[])",
                (number, [r["id"] for r in rows], [r["receive_count"] for r in rows]),
            )
            yield from (replace(op, op="delete", t_invoke=begun) for op in received)

    def _op(self, kind: str, queue: Queue | Topic, t_invoke: float = 0, **more: Any) -> Op:
        ended = time.monotonic()
        return Op(kind, "info", self.name, t_invoke or ended, ended, queue.name, **more)


def shown_row(receive: Op, place: int, row: dict[str, Any]) -> Op:
    """Return the delivery of a message that a function returned."""
    number = row.get("sequence_number")
    return replace(
        receive,
        place=place,
        value=row["body"],
        message_id=str(row["message_id"]),
        group=row["group_id"] or "",
        sequence_number=0 if number is None else SHOWN + number,
        receive_count=row["approximate_receive_count"],
        receipt=str(uuid4()),
    )
