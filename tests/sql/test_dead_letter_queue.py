from support.postgres import Connection
from support.sql import Queue, number, redrive_policy

FIND = "select skipmq.dead_letter_queue(%s)"


def test_dead_letter_queue_is_given_by_its_present_generation(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    orders = Queue(owner, RedrivePolicy=redrive_policy())
    before = number(owner, FIND, orders.id)
    owner.execute("select skipmq.purge_queue(%s)", (dead.id,))

    assert before == dead.id
    assert number(owner, FIND, orders.id) == number(owner, "select skipmq.queue_id('dead')")


def test_queue_whose_dead_letter_queue_was_deleted_has_none(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    orders = Queue(owner, RedrivePolicy=redrive_policy())
    owner.execute("select skipmq.delete_queue(%s)", (dead.id,))

    assert number(owner, FIND, orders.id) is None


def test_queue_without_a_redrive_policy_has_none(orders: Queue) -> None:
    assert number(orders.connection, FIND, orders.id) is None
