"""Beyond SQS: the events of one message, in all queues that it was in."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from skipmq.actions import access, checks, paging
from skipmq.actions.skipmq.inspection import failed
from skipmq.broker import timelines
from skipmq.broker.inspection import Failure
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.broker.timelines import LiveMessage, SettledMessage
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The rows of the history that a token identifies, at most.
_TOKEN_ROWS = 4
# The place where the search of the history continues, and those of rows that it has found.
_TOKEN = re.compile(rf"2[0-9]{{7}}/[0-9]{{0,9}}(,2[0-9]{{7}}/[0-9]{{1,9}}){{0,{_TOKEN_ROWS}}}")
_MICROSECONDS = 1_000_000


class _Found(NamedTuple):
    """A message as it was found; `rows` are its rows of the history in order of time."""

    live: LiveMessage | None
    rows: list[SettledMessage]
    searched: SettledMessage | None
    is_whole: bool


async def get_message_timeline(
    node: Node, call: Call[extensions.GetMessageTimeline], queue: Queue
) -> dict[str, Any]:
    """Return the events of a message in order; the last one is its current state.

    The search covers the first messages of the queue and the history, where each NextToken
    continues it further back. Queues whose messages the caller may not peek at are omitted.
    """
    message_id = call.parameters.MessageId.strip().lower()
    if not _ID.fullmatch(message_id):
        raise errors.invalid(message_id, "MessageId", "Must be a UUID, as SendMessage returns it.")
    text = call.parameters.MessageReference
    reference = None if text is None else checks.message_reference(text, "MessageReference").id
    token = paging.after(call, _TOKEN.fullmatch)
    found = await _Search(node, call, queue, message_id).run(reference, token)
    clock = await node.database.clock(call.deadline)
    return _shown(node, found, int(clock * _MICROSECONDS))


class _Search:
    """The search for a message of one call."""

    def __init__(self, node: Node, call: Call, queue: Queue, message_id: str) -> None:
        self._node, self._call = node, call
        self._queue, self._id, self._deadline = queue, message_id, call.deadline

    async def run(self, reference: int | None, token: str) -> _Found:
        """Search the queue and, if it may have rows of the message, the history."""
        live = await timelines.live(
            self._node.database, self._queue.id, self._id, reference, self._deadline
        )
        is_whole = live.is_whole
        if live.id is not None and live.dead_letter_source is None:
            return _Found(live if self._may_see(live) else None, [], None, is_whole)
        start, *kept = token.split(",")
        rows: list[SettledMessage] = []
        for place in kept:
            found, _ = await timelines.settled(
                self._node.database, self._id, self._deadline, place=place, blocks=1
            )
            rows += found
        sent = [each.sent_at for each in rows] + ([live.sent_at] if live.id is not None else [])
        found, searched = await timelines.settled(
            self._node.database,
            self._id,
            self._deadline,
            since=max(sent, default=None),
            place=start or None,
        )
        rows = sorted(rows + found, key=lambda row: row.settled_at)
        if live.id is None and rows and rows[-1].outcome == "dead-lettered":
            live = await timelines.live(
                self._node.database, None, self._id, rows[-1].id, self._deadline
            )
        seen = {row.id for row in rows if self._may_see(row)}
        if live.id is not None and self._may_see(live):
            seen.add(live.id)
        # Omit the names of queues that the caller may not see.
        shown = [
            row if self._may_see(row) else row._replace(queue=None, node=None)
            for row in rows
            if row.id in seen
        ]
        named = live if self._may_see(live) else live._replace(queue=None)
        return _Found(named if live.id in seen else None, shown, searched, is_whole)

    def _may_see(self, found: LiveMessage | SettledMessage) -> bool:
        if found.queue is None or found.account != self._queue.name.account:
            return False
        name = QueueName(found.account, found.region or "", found.queue)
        return access.allows(self._node, self._call, "PeekMessages", name, found.policy)


def _shown(node: Node, found: _Found, clock: int) -> dict[str, Any]:
    live = found.live
    # A send that was stored twice has two internal ids, each with events of its own.
    ids = dict.fromkeys([row.id for row in found.rows])
    if live is not None:
        ids[live.id or 0] = None
    events: list[dict[str, Any]] = []
    for id_ in ids:
        rows = [row for row in found.rows if row.id == id_]
        stay = live if live is not None and live.id == id_ else None
        found_events = _events(rows, stay)
        if stay is not None:
            _add_failures(found_events, failed(node, stay.failures))
        events += found_events
    state = live.state if live is not None else "settled" if found.rows else "not-found"
    shown: dict[str, Any] = {"State": state, "Clock": clock, "Events": events}
    shown["QueueSearched"] = found.is_whole
    if found.searched is not None:
        shown["HistorySearchedFrom"] = found.searched.settled_at
        if found.searched.place is not None:
            places = [row.place for row in found.rows if row.place][-_TOKEN_ROWS:]
            shown["NextToken"] = paging.token(",".join([found.searched.place, *places]))
    return shown


def _add_failures(events: list[dict[str, Any]], failures: Sequence[Failure]) -> None:
    """Insert failures by their times before the present state, which is the last event."""
    place = 1
    for failure in failures:
        # Those before were of a message that was redriven as this one.
        if failure.at < events[0]["At"]:
            continue
        while place < len(events) - 1 and events[place].get("At", failure.at) < failure.at:
            place += 1
        events.insert(place, {"Event": "failed", **msgspec.to_builtins(failure)})
        place += 1


def _events(rows: Sequence[SettledMessage], live: LiveMessage | None) -> list[dict[str, Any]]:
    """Return the events of a message from its rows, which have one id, in order of time."""
    stays: list[LiveMessage | SettledMessage] = [*rows]
    if live is not None:
        stays.append(live)
    # Without history only the source of a dead-lettered message is known, and not the time.
    source = live.dead_letter_source if live is not None and not rows else None
    first = stays[0].queue if source is None else source.rpartition(":")[2]
    events: list[dict[str, Any]] = [{"Event": "sent", "At": stays[0].sent_at, "QueueName": first}]
    for place, stay in enumerate(stays):
        before = stays[place - 1].first_received_at if place else None
        if stay.first_received_at is not None and before is None:
            at = {"At": stay.first_received_at, "QueueName": first if not place else stay.queue}
            events.append({"Event": "first-received", **at})
        if isinstance(stay, LiveMessage):
            if source is not None:
                moved = {"QueueName": first, "DestinationQueueName": stay.queue}
                events.append({"Event": "dead-lettered", **moved})
            event = {"Event": stay.state, "At": stay.state_at, "QueueName": stay.queue}
            if stay.failure is not None:
                event["FailureReason"] = stay.failure
        else:
            event = {"Event": stay.outcome, "At": stay.settled_at, "QueueName": stay.queue}
            if stay.node is not None:
                event["Program"] = stay.node
            if stay.outcome == "dead-lettered" and place + 1 < len(stays):
                event["DestinationQueueName"] = stays[place + 1].queue
        events.append(event | {"Receives": stay.receives})
    return events
