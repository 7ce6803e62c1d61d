"""The SQL of replays: messages are staged in a table, then sent and marked as sent."""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from skipmq.database.session import Session
from skipmq.protocol.identity import QueueName


class Target(NamedTuple):
    """A queue to send to."""

    name: str
    id: int
    fifo: bool
    maximum_bytes: int


class State(NamedTuple):
    """The state of a replay: its target queue (None: nothing is staged) and its progress.

    `to_send`, `bytes` and `groups` count the unsent messages, `sent` the others.
    """

    target: str | None
    to_send: int
    bytes: int
    groups: int
    sent: int


class Staged(NamedTuple):
    """A staged message; `source_id` is the ID of the settled message."""

    place: int
    message_id: UUID
    source_id: UUID
    group_id: str | None
    trace_header: str | None
    attributes: str
    body: str

    @property
    def size(self) -> int:
        """Return about how many bytes it has."""
        return len(self.body) + len(self.attributes)


def target(session: Session, queue: QueueName) -> Target | None:
    """Look up a queue; return None if it does not exist."""
    row = session.execute(
        "select queue, queue_id, fifo, maximum_message_size from skipmq_views.queue"
        " where account = %s and region = %s and queue = %s and retired_at is null",
        (queue.account, queue.region, queue.name),
    ).fetchone()
    return Target(*row) if row else None


def state(session: Session, replay: str) -> State:
    """Return the state of a replay."""
    row = session.execute(
        "select target, to_send, bytes, groups, sent from skipmq.replay_state(%s)", (replay,)
    ).fetchone()
    assert row is not None
    return State(*row)


def stage(session: Session, replay: str, to: str, messages: Iterable[Staged]) -> None:
    """Stage messages; those that the replay has staged before, or has sent itself, are skipped."""
    session.execute(
        "select skipmq.stage_replay(%s, %s, %s::bigint[], %s::uuid[], %s::uuid[], %s::text[],"
        " %s::text[], %s::text[], %s::text[])",
        (replay, to, *map(list, zip(*messages, strict=True))),
    )


def lock(session: Session, replay: str) -> bool:
    """Try to lock a replay until the session ends; return whether this succeeded."""
    row = session.execute(
        "select pg_try_advisory_lock(hashtext('skipmq_replay'), hashtext(%s))", (replay,)
    ).fetchone()
    return bool(row and row[0])


def send(session: Session, replay: str, to: Target, limit: int) -> int:
    """Send at most `limit` staged messages, in order; return their number."""
    row = session.execute(
        "select skipmq.send_replay(%s, %s::bigint, %s::int)", (replay, to.id, limit)
    ).fetchone()
    assert row is not None
    return int(row[0])
