from support.replays import stage
from support.sql import Queue

STATE = "select target, to_send, bytes, groups, sent from skipmq.replay_state('r')"


def test_state_counts_what_is_to_send_and_what_is_sent(orders: Queue) -> None:
    owner = orders.connection

    before = owner.execute(STATE).fetchone()
    stage(owner, 1, 2, 3, group="g")
    staged = owner.execute(STATE).fetchone()
    owner.execute("select skipmq.send_replay('r', %s, 2)", (orders.id,))
    sent = owner.execute(STATE).fetchone()

    assert before == (None, 0, 0, 0, 0)
    assert staged == ("again", 3, 9, 1, 0)
    assert sent == ("again", 1, 3, 1, 2)
