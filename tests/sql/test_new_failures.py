from support.postgres import Connection
from support.sql import Queue, advance, redrive_policy

NEW = (
    "select kind, messages from skipmq.new_failures("
    "%s, %s, skipmq.clock() - interval '1 hour', %s) order by kind"
)


def fail(owner: Connection, queue: str, *reasons: str) -> None:
    for reason in reasons:
        group = ", 'g'" if queue.endswith(".fifo") else ""
        send = "send_fifo_message" if group else "send_message"
        owner.execute(f"select skipmq.{send}('{queue}', gen_random_uuid()::text{group})")
        owner.execute(
            "select skipmq.dead_letter_message(%s, id, receive_count, message_id, %s)"
            " from skipmq.receive_message(%s)",
            (queue, reason, queue),
        )


def test_kinds_that_came_before_are_not_new(owner: Connection) -> None:
    for hours, fifo in ((2, ""), (4, ".fifo")):
        dead = Queue(owner, f"dead{fifo}")
        attributes = {"ContentBasedDeduplication": "true"} if fifo else {}
        Queue(owner, f"orders{fifo}", RedrivePolicy=redrive_policy(dead.name, 5), **attributes)
        fail(owner, f"orders{fifo}", "Timeout 1")
        advance(owner, f"{hours} hours")

        # Of a queue with more messages than are read the kinds are known all the same.
        fail(owner, f"orders{fifo}", "ValueError", *["KeyError"] * 3, *["Timeout 2"] * 3)

        found = owner.execute(NEW, (dead.id, bool(fifo), 4)).fetchall()
        assert found == [("KeyError", 2), ("ValueError", 1)]


def test_kind_without_messages_is_not_named(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    Queue(owner, "orders", RedrivePolicy=redrive_policy("dead", 5))
    fail(owner, "orders", "KeyError")

    owner.execute("delete from skipmq.message where queue_id = %s", (dead.id,))

    assert owner.execute(NEW, (dead.id, False, 500)).fetchall() == []


def test_kinds_are_found_in_the_lanes_of_a_limited_queue(owner: Connection) -> None:
    dead = Queue(owner, "dead", MaximumInFlight=1)
    Queue(owner, "orders", RedrivePolicy=redrive_policy("dead", 5))
    fail(owner, "orders", *["KeyError"] * 5)

    # It has all in lanes, and the first one in flight.
    assert len(dead.receive()) == 1

    assert owner.execute(NEW, (dead.id, False, 500)).fetchall() == [("KeyError", 5)]
