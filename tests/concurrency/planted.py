"""Faults of a broker, to be planted in a database: one function is another there."""

from dataclasses import dataclass
from typing import Any

import psycopg

# After so many histories a fault is not found.
MOST = 30


@dataclass(frozen=True, slots=True)
class Fault:
    """What the text of a function is changed from and to, each occurrence."""

    function: str
    changes: tuple[tuple[str, str], ...]
    # Whether it takes a purge to find it: else purges only excuse losses.
    purges: bool = False

    @property
    def seeds(self) -> range:
        """Seeds whose users are fit to find it."""
        return range(1, 2 * MOST, 2) if self.purges else range(2, 4 * MOST, 4)

    def plant(self, owner: psycopg.Connection[Any]) -> None:
        ((text,),) = owner.execute(
            "select pg_get_functiondef(p.oid) from pg_proc p"
            " where p.pronamespace = 'skipmq'::regnamespace and p.proname = %s",
            (self.function,),
        ).fetchall()
        for old, new in self.changes:
            assert old in text, (self.function, old)
            text = text.replace(old, new)
        owner.execute(text)


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
                "return v_id;",
                "update skipmq.deduplication d set queue_id = v_id where d.queue_id = p_queue_id;"
                " return v_id;",
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
        (("and m.receive_count = u.receive_count and m.visible_at > v_now", ""),),
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
        "change_visibility", (("set visible_at = f.until", "set visible_at = v_now"),)
    ),
    "what is given back was counted": Fault(
        "return_messages", (("receive_base = m.receive_base + 1", "receive_base = m.receive_base"),)
    ),
    "nothing is given back": Fault("return_messages", (("m.queue_id = p_queue_id\n", "false\n"),)),
    "a purge leaves messages": Fault(
        "purge_queue",
        (
            (
                "return v_id;",
                "update skipmq.message m set queue_id = v_id"
                " where m.queue_id = p_queue_id and m.group_no is null;"
                " return v_id;",
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
        "receive_messages", (("q.max_receive_count, q.tenants", "1, q.tenants"),)
    ),
    "a dead message is lost": Fault(
        "move_to_dead_letter_queue", (("queue_id = p_target", "queue_id = -1"),)
    ),
    "a message of a transaction is not stored": Fault(
        "send_message", (("perform skipmq.send_messages(", "perform concat("),)
    ),
}
