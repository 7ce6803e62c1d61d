"""Faults of a broker, to be planted in a database: one function is another there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from concurrency.queues import queues_of

# After so many histories a fault is not found.
MOST = 30


@dataclass(frozen=True, slots=True)
class Fault:
    """What the text of a function is changed from and to, each occurrence."""

    function: str
    changes: tuple[tuple[str, str], ...]
    # Whether it takes a purge to find it: else purges only excuse losses.
    purges: bool = False
    # The attributes of a queue that it takes, of those that a seed draws, and what names the rule
    # that is broken by it; without a rule its histories are those of plain queues.
    draws: tuple[str, ...] = ()
    rule: str = ""

    @property
    def seeds(self) -> list[int]:
        """Seeds whose users and queues are fit to find it."""
        fit = [
            seed
            for seed in (range(1, 40 * MOST, 2) if self.purges else range(2, 40 * MOST, 4))
            if any(self._fits(queue.attributes) for queue in queues_of(seed, drawn=True))
        ]
        return fit[:MOST]

    def _fits(self, attributes: Mapping[str, str]) -> bool:
        return all(name in attributes for name in self.draws)

    def plant(self, owner: psycopg.Connection[Any]) -> None:
        ((text,),) = owner.execute(
            "select pg_get_functiondef(p.oid) from pg_proc p"
            " where p.pronamespace = 'skipmq'::regnamespace and p.proname = %s",
            (self.function,),
        ).fetchall()
        owner.execute(self.planted(text))

    def planted(self, text: str) -> str:
        """Return the text of the function with the fault in it."""
        for old, new in self.changes:
            assert old in text, (self.function, old)
            text = text.replace(old, new)
        return text


FAULTS = {
    "a receive claims what others have in flight": Fault(
        "receive_messages",
        (
            (
                "v_until := v_now + greatest(make_interval(secs => v_timeout),",
                "v_until := v_now + greatest(interval '0',",
            ),
        ),
    ),
    "a receive gives what lies behind a message in flight": Fault(
        "claim_fifo_messages",
        (
            (
                "case when m.receive_count = m.receive_base then m.visible_at + v_delay"
                " else m.visible_at end <= v_now\n      ) over (order by m.sequence_number)"
                " as ready",
                "true) over (order by m.sequence_number) and m.visible_at <= v_now as ready",
            ),
            ("set available_at = v_until", "set available_at = g.available_at"),
        ),
    ),
    "a receive does not lock groups": Fault(
        "claim_fifo_messages", (("for no key update skip locked", ""),)
    ),
    "a group is in the order of visibility": Fault(
        "claim_fifo_messages",
        (
            (
                "order by m.sequence_number\n        limit",
                "order by m.visible_at desc, m.sequence_number desc\n        limit",
            ),
            (
                "over (order by m.sequence_number) as ready",
                "over (order by m.visible_at desc, m.sequence_number desc) as ready",
            ),
        ),
    ),
    "a receive does not count": Fault(
        "receive_messages", (("m.receive_count - m.receive_base, m.sent_at", "1, m.sent_at"),)
    ),
    "a deduplication id is not kept": Fault(
        "send_fifo_messages", (("where d.expires_at <= v_now", "where true"),)
    ),
    "a purge keeps deduplication ids": Fault(
        "purge_queue",
        (
            (
                "return query select v_id",
                "update skipmq.deduplication d set queue_id = v_id where d.queue_id = p_queue_id;"
                " return query select v_id",
            ),
        ),
        purges=True,
    ),
    "senders do not lock groups": Fault(
        "hold_groups",
        (
            ("perform pg_advisory_xact_lock(u.group_no)", "perform u.group_no"),
            ("where not pg_try_advisory_xact_lock(u.group_no)", "where false"),
        ),
    ),
    "a delete takes an old receipt": Fault(
        "delete_messages", (("and m.receive_count = r.receive_count ", ""),)
    ),
    "a delete takes an old receipt of a FIFO queue": Fault(
        "delete_fifo_messages",
        (("when m.receive_count = u.receive_count and m.visible_at > v_now", "when m.found"),),
    ),
    "a delete deletes nothing": Fault(
        "delete_messages",
        (
            (
                "delete from skipmq.message m\n    using",
                "update skipmq.message m set shard = m.shard\n    from",
            ),
            ("m.queue_id = p_queue_id\n", "m.queue_id = p_queue_id and m.receive_count = 1\n"),
        ),
    ),
    "a change of visibility hides nothing": Fault(
        "change_visibility", (("b.backoff is null then f.until", "b.backoff is null then v_now"),)
    ),
    "what is given back was counted": Fault(
        "return_messages", (("receive_base = m.receive_base + 1", "receive_base = m.receive_base"),)
    ),
    "nothing is given back": Fault("return_messages", (("m.queue_id = p_queue_id\n", "false\n"),)),
    "a purge leaves messages": Fault(
        "purge_queue",
        (
            (
                "return query select v_id",
                "update skipmq.message m set queue_id = v_id"
                " where m.queue_id = p_queue_id and m.group_no is null;"
                " return query select v_id",
            ),
        ),
        purges=True,
    ),
    "a purge does not wait for transactions": Fault(
        "hold_generation",
        (
            (
                "pg_advisory_xact_lock_shared(hashtext('skipmq.queue'),"
                " (p_queue_id & 1023)::integer)",
                "hashtext('')",
            ),
        ),
        purges=True,
    ),
    "a move loses messages": Fault("resend", (("queue_id = t.target", "queue_id = -1"),)),
    "a move of FIFO messages loses some": Fault(
        "append_fifo",
        (("queue_id = n.target,", "queue_id = case when v_dead then n.target else -1 end,"),),
    ),
    "a message is dead too early": Fault(
        "receive_messages",
        (("retention_period), q.max_receive_count,", "retention_period), 1,"),),
    ),
    "a dead message is lost": Fault(
        "move_to_dead_letter_queue", (("queue_id = p_target", "queue_id = -1"),)
    ),
    "a message of a transaction is not stored": Fault(
        "send_message", (("perform skipmq.send_messages(", "perform concat("),)
    ),
}

_IN_FLIGHT = "limits in flight"
# Those of limits, priorities, back-off, topics and deduplication beyond FIFO queues.
DRAWN_FAULTS = {
    "claims do not take the lock of limits": Fault(
        "hold_limits",
        (("if not exists (", "if true or not exists ("),),
        draws=("MaximumInFlight",),
        rule=_IN_FLIGHT,
    ),
    "some of what is in flight is not counted": Fault(
        "claim_limited_messages",
        (
            (
                "and m.visible_at > v_now and m.receive_count > m.receive_base",
                "and m.visible_at > v_now and m.receive_count = m.receive_base + 1",
            ),
        ),
        draws=("MaximumInFlight",),
        rule=_IN_FLIGHT,
    ),
    "a claim forgets what it took of a group": Fault(
        "choose_messages",
        (("h.group_id is null or h.number", "true or h.number"),),
        draws=("MaximumInFlightPerGroup",),
        rule=_IN_FLIGHT,
    ),
    "what is no longer in flight is hidden again": Fault(
        "change_visibility",
        (("m.strict and m.visible_at <= v_now as late", "false as late"),),
        draws=("MaximumInFlight",),
        rule=_IN_FLIGHT,
    ),
    "a FIFO queue counts nothing in flight": Fault(
        "claim_limited_groups",
        (("(select count(*) from skipmq.fifo_in_flight(p_queue_id, v_now))", "0"),),
        rule=_IN_FLIGHT,
    ),
    "deliveries do not count for the rate": Fault(
        "use_rates",
        (("where u.used is not null", "where u.used is not null and u.key <> ''"),),
        draws=("MaximumReceiveRate",),
        rule="rates",
    ),
    "deliveries do not count for the rate of their group": Fault(
        "use_rates",
        (("where k.key is not null", "where false"),),
        draws=("MaximumReceiveRatePerGroup",),
        rule="rates",
    ),
    "each receive has a burst of its own": Fault(
        "rate_allowance",
        (("* v_rate) + v_burst, p_most)", "* v_rate * 0) + v_burst, p_most)"),),
        draws=("MaximumReceiveRate",),
        rule="rates",
    ),
    "the lowest priority comes first": Fault(
        "lane_order",
        (
            ("else -p end as key", "else p end as key"),
            ("if p_mode <> 'weighted' and not p_tenants then", "if false then"),
        ),
        draws=("MaximumInFlight", "PriorityMode"),
        rule="priorities",
    ),
    "redeliveries are not delayed": Fault(
        "retry_delay",
        (("return make_interval(", "return 0 * make_interval("),),
        draws=("RetryBackoff",),
        rule="visibility exclusive",
    ),
    "a standard queue forgets deduplication ids": Fault(
        "send_unique_messages",
        (("where d.expires_at <= v_now", "where true"),),
        draws=("DeduplicationSeconds",),
        rule="deduplication",
    ),
    "a publish leaves a queue out": Fault(
        "deliveries",
        (("and s.confirmed and", "and s.confirmed and random() < 0.8 and"),),
        rule="no acknowledged message lost",
    ),
    "a publish of unknown outcome leaves a queue out": Fault(
        "publish_messages",
        (
            (
                "for i in 1 .. coalesce(cardinality(v_fifos), 0) loop",
                "for i in 1 .. coalesce(cardinality(v_fifos), 0) - (random() < 0.5)::integer loop",
            ),
        ),
        rule="published to all or none",
    ),
    "a filter policy is not applied": Fault(
        "deliveries",
        (("and (s.filter is null or", "and (true or s.filter is null or"),),
        rule="nothing invented",
    ),
    "a FIFO topic publishes twice under an id": Fault(
        "publish_messages",
        (("if message_id <> p_message_ids[n] then", "if false then"),),
        rule="one message stays one",
    ),
}
