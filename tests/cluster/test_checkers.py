"""Each rule lets pass what is allowed, and tells of what is not."""

from dataclasses import replace

import pytest

from cluster.checkers import CHECKERS, second_copies
from cluster.history import Op
from cluster.record import Record
from cluster.story import (
    FIFO,
    QUEUE,
    closing,
    fault,
    life,
    op,
    receive,
    send,
    settle,
    steady,
)

RULES = [*CHECKERS]
LOST, INVENTED, UNDELETED, SHARED, DISORDERED, REPEATED = RULES[:6]
# Those of workers are in test_effects.py.
# Those of limits and topics are in test_limit_checkers.py.
MISCOUNTED, LEFT, UNANSWERED, STALLED, DIFFERING = RULES[8:13]


def broken(ops: list[Op], slack: float = 1.0) -> dict[str, list[str]]:
    """Return what each rule says of a history, where it says anything."""
    record = Record(ops, slack)
    found = {name: list(check(record)) for name, check in CHECKERS.items()}
    return {name: findings for name, findings in found.items() if findings}


def only(rule: str, ops: list[Op]) -> str:
    """Return the one thing that one rule says, when no other says anything."""
    found = broken([*ops, *closing()])
    assert set(found) == {rule}, found
    (finding,) = found[rule]
    return finding


def kept(ops: list[Op]) -> None:
    assert broken([*ops, *closing()]) == {}


def test_whole_lives_on_both_kinds_of_queue_break_no_rule() -> None:
    kept([*life(0, "a"), *life(0.5, "b"), *life(1, "c", 1), *life(4, "d", 2)])


def test_there_are_sixteen_rules_each_with_its_promise() -> None:
    assert len(CHECKERS) == 16
    assert all(check.__doc__ for check in CHECKERS.values())


class TestLost:
    def test_acknowledged_send_that_never_comes_is_lost(self) -> None:
        assert "a was acknowledged and never came" in only(LOST, [send(0, "a"), *life(1, "b")])

    def test_message_that_came_and_went_without_a_delete_is_lost(self) -> None:
        ops = [send(0, "a"), receive(1, "a"), *life(1, "b")]

        assert "a came, nobody deleted it, and it is gone" in only(LOST, ops)

    def test_delete_of_unknown_outcome_may_have_been_done(self) -> None:
        received = receive(1, "a")

        kept([send(0, "a"), received, settle("delete", 2, received, outcome="info")])

    def test_delete_that_was_refused_was_not_done(self) -> None:
        received = receive(1, "a")

        only(LOST, [send(0, "a"), received, settle("delete", 2, received, outcome="fail")])

    def test_send_of_unknown_outcome_may_come_or_not(self) -> None:
        maybe = send(0, "b", outcome="info")
        received = receive(1, "b")

        kept([send(0, "a", outcome="info"), maybe, received, settle("delete", 2, received)])

    def test_same_value_in_another_queue_does_not_count(self) -> None:
        found = broken([send(0, "a"), *life(0, "a", 1), *closing()])

        assert set(found) == {LOST}


class TestInvented:
    def test_what_nobody_sent_is_invented(self) -> None:
        received = receive(1, "a")

        assert "never sent" in only(INVENTED, [received, settle("delete", 2, received)])

    def test_what_was_refused_must_not_come(self) -> None:
        ops = [replace(each, type="fail") if each.op == "send" else each for each in life(0, "a")]

        assert "was refused and came" in only(INVENTED, ops)

    def test_one_send_makes_one_message(self) -> None:
        second = receive(1, "a", message_id="id-other")
        ops = [*life(0, "a"), second, settle("delete", 2, second)]

        assert "became id-a, id-other" in only(INVENTED, ops)

    def test_group_is_that_of_the_send(self) -> None:
        first, second, third = life(0, "a", 1)
        ops = [first, replace(second, group="h"), replace(third, group="h")]

        assert "another group" in only(INVENTED, ops)


class TestUndeleted:
    def test_deleted_message_that_comes_again_is_told(self) -> None:
        again = receive(20, "a", 2)
        ops = [*life(0, "a"), again, settle("delete", 21, again)]

        assert "18.0 s after its delete" in only(UNDELETED, ops)

    def test_receive_that_began_before_the_delete_was_over_may_have_it(self) -> None:
        again = receive(2.05, "a", 2, took=0.2)
        first = receive(1, "a", visibility=1)
        ops = [send(0, "a"), first, settle("delete", 2, first), again, settle("delete", 3, again)]

        kept(ops)

    def test_delete_after_the_visibility_timeout_may_do_nothing(self) -> None:
        first, again = receive(1, "a", visibility=2), receive(5, "a", 2)
        ops = [send(0, "a"), first, settle("delete", 4, first), again, settle("delete", 6, again)]

        kept(ops)

    def test_failover_may_undo_the_last_deletes_of_a_standard_queue(self) -> None:
        again = receive(20, "a", 2)
        ops = [*life(0, "a"), again, settle("delete", 21, again), *steady(0, 30)]

        kept([*ops, *fault("postgres-crash", 3)])
        only(UNDELETED, [*ops, *fault("postgres-crash", 8)])
        only(UNDELETED, [*ops, *fault("node-crash", 3)])

    def test_failover_undoes_no_delete_of_a_fifo_queue(self) -> None:
        again = receive(20, "a", 2, number=1)
        ops = [*life(0, "a", 1), again, settle("delete", 21, again), *steady(0, 30)]

        only(UNDELETED, [*ops, *fault("postgres-crash", 3)])


class TestShared:
    def test_message_in_flight_that_comes_to_another_is_told(self) -> None:
        first, again = receive(1, "a"), receive(5, "a", 2, process="other")
        ops = [send(0, "a"), first, again, settle("delete", 6, again)]

        assert "came to other at least 4.9 s before it was free: p had it" in only(SHARED, ops)

    def test_message_comes_again_after_its_timeout(self) -> None:
        first, again = receive(1, "a"), receive(10.5, "a", 2)

        kept([send(0, "a"), first, again, settle("delete", 11, again)])

    def test_message_that_was_shown_again_is_free(self) -> None:
        first, again = receive(1, "a"), receive(3, "a", 2)
        shown = settle("hide", 2, first, visibility=0)

        kept([send(0, "a"), first, shown, again, settle("delete", 4, again)])

    def test_message_that_is_hidden_for_longer_stays_hidden(self) -> None:
        first, again = receive(1, "a", visibility=2), receive(6, "a", 2)
        hidden = settle("hide", 2, first, visibility=10)
        ops = [send(0, "a"), first, hidden, again, settle("delete", 7, again)]

        only(SHARED, ops)
        kept([each if each is not hidden else replace(hidden, type="info") for each in ops])

    def test_failover_may_undo_the_last_receives(self) -> None:
        first, again = receive(2, "a"), receive(5, "a", 1, process="other")
        ops = [send(0, "a"), first, again, settle("delete", 6, again), *steady(0, 9)]

        kept([*ops, *fault("postgres-crash", 3)])

    def test_failover_that_nobody_meant_may_do_the_same(self) -> None:
        first, again = receive(2, "a"), receive(5, "a", 1, process="other")
        ops = [send(0, "a"), first, again, settle("delete", 6, again), *steady(0, 9)]
        looks = [op("timeline", at, sequence_number=1) for at in (0, 2.5)]

        kept([*ops, *looks, op("timeline", 4, sequence_number=2)])
        found = broken([*ops, *looks, op("timeline", 4, sequence_number=1), *closing()])
        assert set(found) == {MISCOUNTED}


class TestDisordered:
    def test_later_sends_have_greater_numbers(self) -> None:
        ops = [send(0, "a", 2), send(1, "b", 1)]
        one, other = receive(2, "b", number=1), receive(2, "a", number=2, place=1)
        ops += [one, other, settle("delete", 3, one), settle("delete", 3, other)]

        assert "b, number 1, was sent after a, number 2" in only(DISORDERED, ops)

    def test_first_deliveries_are_in_the_order_of_numbers(self) -> None:
        ops = [send(0, "a", 1), send(1, "b", 2)]
        one, other = receive(2, "b", number=2), receive(4, "a", number=1)
        ops += [one, settle("delete", 3, one), other, settle("delete", 5, other)]

        assert "a, number 1, came first after b, number 2" in only(DISORDERED, ops)

    def test_receive_that_was_answered_late_may_have_been_the_first(self) -> None:
        ops = [send(0, "a", 1), send(1, "b", 2)]
        late = receive(2, "a", number=1, took=30, visibility=2)
        one, other = receive(5, "a", 2, number=1), receive(5, "b", number=2, place=1)
        again = receive(40, "a", 3, number=1)

        kept(
            [*ops, late, one, other, again, settle("delete", 41, again), settle("delete", 6, other)]
        )

    def test_one_receive_has_its_messages_in_order(self) -> None:
        ops = [send(0, "a", 1), send(1, "b", 2)]
        one, other = receive(2, "b", number=2), receive(2, "a", number=1, place=1)
        ops += [one, other, settle("delete", 3, one), settle("delete", 3, other)]

        assert "b came before a in one receive" in only(DISORDERED, ops)

    def test_nothing_comes_while_an_earlier_one_is_in_flight(self) -> None:
        ops = [send(0, "a", 1), send(1, "b", 2)]
        one, other = receive(2, "a", number=1), receive(3, "b", number=2)
        ops += [one, other, settle("delete", 4, one), settle("delete", 4, other)]

        assert "b came while a was in flight" in only(DISORDERED, ops)

    def test_other_groups_go_on(self) -> None:
        ops = [send(0, "a", 1), send(1, "b", 2, group="h")]
        one, other = receive(2, "a", number=1), receive(3, "b", number=2, group="h")

        kept([*ops, one, other, settle("delete", 4, one), settle("delete", 4, other)])

    def test_sends_at_the_same_time_have_no_order(self) -> None:
        ops = [send(0, "a", 2), send(0.05, "b", 1)]
        one, other = receive(2, "b", number=1), receive(2, "a", number=2, place=1)

        kept([*ops, one, other, settle("delete", 3, one), settle("delete", 3, other)])


class TestRepeated:
    def test_second_sending_under_an_id_is_the_first_message(self) -> None:
        kept([*life(0, "a", 1), send(10, "a", 1)])

    def test_second_message_under_an_id_is_told(self) -> None:
        second = receive(12, "a", number=2, message_id="id-b")
        ops = [*life(0, "a", 1), send(10, "a", 2, message_id="id-b"), second]
        ops.append(settle("delete", 13, second))

        assert "a became id-a, id-b with numbers [1, 2]" in only(REPEATED, ops)

    def test_second_message_of_a_send_of_unknown_outcome_is_told(self) -> None:
        second = receive(12, "a", number=2, message_id="id-b")
        ops = [*life(0, "a", 1), send(10, "a", outcome="info", queue=FIFO), second]
        ops.append(settle("delete", 13, second))

        only(REPEATED, ops)

    def test_id_is_forgotten_after_five_minutes(self) -> None:
        second = receive(402, "a", number=2, message_id="id-b")
        ops = [*life(0, "a", 1), send(400, "a", 2, message_id="id-b"), second]

        kept([*ops, settle("delete", 403, second)])


class TestMiscounted:
    def test_count_that_jumps_is_told(self) -> None:
        first, second = receive(1, "a"), receive(12, "a", 3)
        ops = [send(0, "a"), first, second, settle("delete", 13, second)]

        assert "has the count 3, at most 2" in only(MISCOUNTED, ops)

    def test_receive_of_unknown_outcome_may_be_the_missing_one(self) -> None:
        first, second = receive(1, "a"), receive(24, "a", 3)
        unclear = op("receive", 12, outcome="info", queue=QUEUE)

        kept([send(0, "a"), first, unclear, second, settle("delete", 25, second)])

    def test_count_that_stays_is_told(self) -> None:
        first, second = receive(1, "a"), receive(12, "a", 1)
        ops = [send(0, "a"), first, second, settle("delete", 13, second)]

        assert "has the count 1, as one before had" in only(MISCOUNTED, ops)

    def test_two_receives_at_once_have_not_the_same_count(self) -> None:
        first, second = receive(1, "a", took=9.5), receive(2, "a", took=9.5)
        ops = [send(0, "a"), first, second, settle("delete", 13, second)]

        assert "has the count 1, as one before had" in only(MISCOUNTED, ops)

    def test_failover_may_undo_a_count(self) -> None:
        first, second = receive(1, "a"), receive(12, "a", 1)
        ops = [send(0, "a"), first, second, settle("delete", 13, second), *steady(0, 9)]

        kept([*ops, *fault("postgres-crash", 3)])

    def test_send_that_a_failover_held_up_may_have_been_stored_twice(self) -> None:
        first, again = receive(7, "a"), receive(20, "a")
        rest = [first, settle("delete", 8, first), again, settle("delete", 21, again)]
        around = [*steady(0, 4), *steady(7, 30), *fault("postgres-crash", 4)]

        kept([send(3, "a", took=4), *rest, *around])
        assert second_copies(Record([send(3, "a", took=4), *rest, *around])) == 1
        only(MISCOUNTED, [send(3, "a"), *rest, *around])
        # Where only the session ended, it was tried again at once.
        kept([send(3, "a"), *rest, *steady(0, 30), *fault("terminations", 4)])

    def test_send_to_a_fifo_queue_is_never_stored_twice(self) -> None:
        first, again = receive(7, "a", number=1), receive(20, "a", number=1)
        rest = [first, settle("delete", 8, first), again, settle("delete", 21, again)]
        around = [*steady(0, 4), *steady(7, 30), *fault("postgres-crash", 4)]

        found = broken([send(3, "a", 1, took=4), *rest, *around, *closing()])
        assert set(found) == {UNDELETED, MISCOUNTED}


class TestLeft:
    @pytest.mark.parametrize("place", range(3))
    def test_attribute_that_is_not_0_is_told(self, place: int) -> None:
        counts = ["0", "0", "0"]
        counts[place] = "7"

        found = broken([*life(0, "a"), *closing(QUEUE, counts=counts)])

        assert set(found) == {LEFT}
        assert found[LEFT][0].endswith(" 7")

    def test_queue_that_nobody_looked_at_is_told(self) -> None:
        assert set(broken([*life(0, "a"), *closing(FIFO)])) == {LEFT}


class TestUnanswered:
    def test_request_that_nobody_answers_is_told(self) -> None:
        waits = op("receive", 1, queue=QUEUE, outcome="info", took=40.1, error="timed out")

        said = only(UNANSWERED, [*life(0, "a"), waits])

        assert said == f"{QUEUE}: p had no answer to a receive in 40 s"

    def test_connection_that_ends_before_is_an_answer(self) -> None:
        kept([*life(0, "a"), op("receive", 1, queue=QUEUE, outcome="info", took=20)])


class TestStalled:
    def test_outage_within_its_bound_is_allowed(self) -> None:
        kept([*steady(0, 10), *fault("postgres-crash", 10), *steady(12.5, 20)])

    def test_longer_one_is_told_unless_there_is_slack(self) -> None:
        ops = [*steady(0, 10), *fault("postgres-crash", 10, healthy=8), *steady(16, 25)]

        assert "6.5 s without an acknowledged send, at most 6" in only(STALLED, ops)
        assert broken([*ops, *closing()], slack=3) == {}

    def test_end_of_all_sends_is_told_whatever_the_slack(self) -> None:
        ops = [*steady(0, 10), *fault("postgres-crash", 10), *closing()]

        assert "inf s" in broken(ops, slack=100)[STALLED][0]

    def test_cluster_that_is_never_healthy_again_is_told(self) -> None:
        ops = [*steady(0, 20), *fault("node-crash", 10)[:2]]

        assert "not healthy again" in broken([*ops, *closing(at=21)])[STALLED][0]

    def test_nothing_is_acknowledged_without_standbys(self) -> None:
        down = fault("standbys-down", 10, lasts=12, healthy=20)
        quiet = [*steady(0, 10), *down, *steady(25, 40)]

        kept(quiet)
        assert "steady-a acknowledged, 5.0 s after" in only(
            STALLED, [*quiet, *life(15, "steady-a")]
        )

    def test_send_that_was_blocked_without_standbys_may_be_acknowledged_after(self) -> None:
        down = fault("standbys-down", 10, lasts=12, healthy=20)
        waited = send(15, "a", took=9)
        received = receive(26, "a")
        ops = [waited, received, settle("delete", 27, received)]

        kept([*steady(0, 10), *down, *ops, *steady(25, 40)])


class TestDiffering:
    def test_server_with_other_rows_is_told(self) -> None:
        found = broken([*life(0, "a"), *closing(rows=(0, 1, 0))])

        assert set(found) == {DIFFERING}
        assert "message: postgres1 has [0, 'abc'], postgres2 has [1, 'abc']" in found[DIFFERING][0]

    def test_one_server_compares_with_nothing(self) -> None:
        assert set(broken([*life(0, "a"), *closing(rows=(0,))])) == {DIFFERING}
