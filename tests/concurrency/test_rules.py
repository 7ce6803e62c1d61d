"""Each rule lets pass what is allowed, and finds what is not."""

from dataclasses import replace

import pytest

from cluster.history import Op
from cluster.story import FIFO, QUEUE, life, op, receive, send, settle
from concurrency.rules import broken
from concurrency.story import (
    DEAD,
    DEAD_LETTERED,
    DOUBLED,
    INVENTED,
    LEFT,
    LOST,
    MISCOUNTED,
    PURGED,
    REFUSED,
    SHARED,
    UNDELETED,
    ended,
    kept,
    kill,
    leave,
    only,
    purge,
    redriving,
)


def test_whole_lives_break_no_rule() -> None:
    kept(*life(0, "a"), *life(0.5, "b"), *life(1, "c", 1), *life(4, "d", 2))


class TestLost:
    def test_acknowledged_message_that_never_comes_is_found(self) -> None:
        assert "a was acknowledged and never came" in only(LOST, send(0, "a"))

    @pytest.mark.parametrize("outcome", ["fail", "info"])
    def test_send_that_was_not_acknowledged_may_be_gone(self, outcome: str) -> None:
        kept(send(0, "a", outcome=outcome))

    def test_message_that_comes_and_is_gone_is_found(self) -> None:
        assert "nobody deleted it" in only(LOST, send(0, "a"), receive(1, "a"))

    def test_delete_that_failed_deletes_nothing(self) -> None:
        received = receive(1, "a")

        only(LOST, send(0, "a"), received, settle("delete", 2, received, outcome="fail"))

    def test_delete_of_unknown_outcome_may_have_been_done(self) -> None:
        received = receive(1, "a")

        kept(send(0, "a"), received, settle("delete", 2, received, outcome="info"))

    def test_delete_by_an_old_receipt_deletes_nothing(self) -> None:
        old, new = receive(1, "a"), receive(12, "a", 2)

        only(LOST, send(0, "a"), old, new, settle("delete", 13, old))

    def test_delete_at_the_time_of_the_next_receive_may_have_been_before_it(self) -> None:
        old, new = receive(1, "a"), receive(12, "a", 2)

        kept(send(0, "a"), old, new, settle("delete", 12.05, old))

    @pytest.mark.parametrize("at", [-0.05, 0.05, 5])
    def test_purge_may_have_taken_it(self, at: float) -> None:
        kept(send(0, "a"), purge(at))

    @pytest.mark.parametrize("of", [purge(-1), purge(5, "other"), purge(5, outcome="fail")])
    def test_purge_before_it_or_of_another_queue_or_that_failed_takes_nothing(self, of: Op) -> None:
        only(LOST, send(0, "a"), of)

    def test_purge_of_the_dead_letter_queue_may_have_taken_it(self) -> None:
        kept(redriving(), send(0, "a"), receive(1, "a"), purge(20, DEAD))

    def test_purge_of_the_dead_letter_queue_takes_nothing_that_is_not_there(self) -> None:
        only(LOST, redriving(2), send(0, "a"), receive(1, "a"), purge(20, DEAD))

    def test_message_that_is_there_at_the_end_is_not_lost(self) -> None:
        ends = op("left", 99, queue=QUEUE, receive_count=1)

        assert "1 messages cannot be received" in only(LEFT, send(0, "a"), ends)

    def test_message_that_was_moved_back_and_deleted_is_not_lost(self) -> None:
        moved = receive(30, "a", message_id="id-new")
        task = op("move", 20, queue=DEAD)

        kept(redriving(), send(0, "a"), receive(1, "a"), task, *ended(moved))

    def test_committed_send_that_never_comes_is_found(self) -> None:
        only(LOST, send(3, "a", process="sql"))


class TestInvented:
    def test_what_was_never_sent_is_found(self) -> None:
        assert "was never sent" in only(INVENTED, *ended(receive(1, "a")))

    def test_what_was_rolled_back_is_found(self) -> None:
        ops = [send(0, "a", outcome="fail"), *ended(receive(1, "a"))]

        assert "rolled back, and came" in only(INVENTED, *ops)

    def test_what_comes_before_its_commit_is_found(self) -> None:
        ops = [send(5, "a", process="sql"), *ended(receive(1, "a"), after=6)]

        assert "before it was sent, or committed" in only(INVENTED, *ops)

    def test_transaction_may_receive_what_it_sends(self) -> None:
        ops = [send(5, "a", process="sql"), *ended(receive(1, "a", process="sql"), after=6)]

        kept(*ops)

    def test_what_comes_in_another_group_is_found(self) -> None:
        ops = [send(0, "a", 1), *ended(receive(1, "a", number=1, group="h"))]

        assert "came in the group h" in only(INVENTED, *ops)

    def test_id_of_two_bodies_is_found(self) -> None:
        two = receive(3, "b", message_id="id-a", count=2)
        ops = [send(0, "a"), send(0, "b"), *ended(receive(1, "a", visibility=1), 3), *ended(two)]

        assert "id-a came with the bodies ['a', 'b']" in only(INVENTED, *ops)


class TestUndeleted:
    def test_deleted_message_that_comes_again_is_found(self) -> None:
        ops = [*life(0, "a"), *ended(receive(12, "a", 2))]

        assert "10.0 s after its delete" in only(UNDELETED, *ops)

    def test_delete_from_a_fifo_queue_counts_whenever_it_was(self) -> None:
        late, again = receive(1, "a", number=1), receive(32, "a", 2, number=1)

        only(UNDELETED, send(0, "a", 1), late, settle("delete", 20, late), *ended(again))

    def test_late_delete_from_a_standard_queue_may_have_done_nothing(self) -> None:
        late, again = receive(1, "a"), receive(32, "a", 2)

        kept(send(0, "a"), late, settle("delete", 10.5, late), *ended(again))

    def test_delete_after_a_longer_hold_counts(self) -> None:
        held, again = receive(1, "a"), receive(60, "a", 2)
        longer = settle("hide", 5, held, visibility=30)

        only(UNDELETED, send(0, "a"), held, longer, settle("delete", 20, held), *ended(again))

    def test_delete_after_somebody_else_has_shown_it_may_have_done_nothing(self) -> None:
        old, held, again = receive(1, "a"), receive(12, "a", 2), receive(24, "a", 3)
        shown = settle("hide", 12.5, old)

        kept(send(0, "a"), old, held, shown, settle("delete", 13, held), *ended(again))

    def test_copy_of_what_was_deleted_is_found(self) -> None:
        copy = receive(12, "a", message_id="id-new")
        ops = [redriving(), *life(0, "a"), op("move", 8, queue=DEAD), *ended(copy)]

        assert "id-new" in only(UNDELETED, *ops)


class TestPurged:
    def test_purged_message_that_comes_is_found(self) -> None:
        assert "after a purge" in only(PURGED, send(0, "a"), purge(1), *ended(receive(2, "a")))

    def test_purged_message_in_flight_that_comes_again_is_found(self) -> None:
        ops = [send(0, "a", outcome="info"), receive(1, "a"), purge(2), *ended(receive(12, "a", 2))]

        only(PURGED, *ops)

    @pytest.mark.parametrize(
        "ops",
        [
            (send(0, "a"), purge(1), receive(1.05, "a")),
            (send(0, "a"), purge(0.05), receive(2, "a")),
            (send(0, "a"), purge(1, outcome="info"), receive(2, "a")),
            (send(0, "a"), purge(1, "other"), receive(2, "a")),
        ],
    )
    def test_what_may_have_been_outside_is_not(self, ops: tuple[Op, ...]) -> None:
        *before, received = ops
        kept(*before, *ended(received))


class TestShared:
    def test_message_that_comes_while_it_is_in_flight_is_found(self) -> None:
        again = receive(3, "a", 2, process="q")

        assert "came to q at least" in only(SHARED, send(0, "a"), receive(1, "a"), *ended(again))

    def test_message_may_come_when_its_time_is_nearly_over(self) -> None:
        kept(send(0, "a"), receive(1, "a"), *ended(receive(9.95, "a", 2)))

    def test_long_poll_may_have_claimed_it_late(self) -> None:
        kept(send(0, "a"), receive(1, "a", took=9), *ended(receive(11, "a", 2), after=2))

    def test_message_that_somebody_shows_may_come(self) -> None:
        one = receive(1, "a")

        kept(send(0, "a"), one, settle("hide", 2, one), *ended(receive(3, "a", 2)))

    def test_message_that_is_hidden_for_longer_may_not_come(self) -> None:
        one = receive(1, "a")
        longer = settle("hide", 2, one, visibility=30)

        only(SHARED, send(0, "a"), one, longer, *ended(receive(15, "a", 2)))

    def test_change_by_an_old_receipt_counts_on_a_standard_queue(self) -> None:
        old, held = receive(1, "a"), receive(12, "a", 2)

        kept(send(0, "a"), old, held, settle("hide", 13, old), *ended(receive(14, "a", 3)))

    def test_change_by_an_old_receipt_does_nothing_on_a_fifo_queue(self) -> None:
        old, held = receive(1, "a", number=1), receive(12, "a", 2, number=1)
        last = receive(14, "a", 3, number=1)

        only(SHARED, send(0, "a", 1), old, held, settle("hide", 13, old), *ended(last))

    def test_change_after_its_time_holds_nothing_on_a_standard_queue(self) -> None:
        """Somebody who hung up may have had it then, and given it back."""
        one = receive(1, "a")
        late = settle("hide", 12, one, visibility=30)

        kept(send(0, "a"), one, late, *ended(receive(15, "a", 2)))

    def test_change_of_unknown_outcome_may_have_shown_it(self) -> None:
        one = receive(1, "a")

        kept(send(0, "a"), one, settle("hide", 2, one, outcome="info"), *ended(receive(3, "a", 2)))


class TestRefused:
    EXPIRED = "InvalidParameterValue: The receipt handle has expired."

    @pytest.mark.parametrize("kind", ["delete", "hide"])
    def test_receipt_of_a_message_in_flight_that_is_refused_is_found(self, kind: str) -> None:
        one = receive(1, "a")
        refusal = settle(kind, 2, one, outcome="fail", error=self.EXPIRED)

        found = only(REFUSED, send(0, "a"), one, refusal, *ended(receive(12, "a", 2)))
        assert f"in flight to p: its {kind} was refused" in found

    @pytest.mark.parametrize(
        ("at", "error"),
        [(11, EXPIRED), (2, "ServiceUnavailable: An open transaction holds what it is for")],
    )
    def test_receipt_may_be_refused_later_or_by_a_node_that_cannot(
        self, at: float, error: str
    ) -> None:
        one = receive(1, "a")
        refusal = settle("hide", at, one, outcome="fail", error=error)

        kept(send(0, "a"), one, refusal, *ended(receive(12, "a", 2)))

    @pytest.mark.parametrize("outcome", ["ok", "info"])
    def test_receipt_of_what_may_be_deleted_may_be_refused(self, outcome: str) -> None:
        one = receive(1, "a")
        refusal = settle("hide", 3, one, outcome="fail", error=self.EXPIRED)

        kept(send(0, "a"), one, settle("delete", 2, one, outcome=outcome), refusal)


class TestDoubled:
    def test_second_id_of_a_body_is_found(self) -> None:
        ops = [*life(0, "a"), *ended(receive(1, "a", message_id="id-2"), after=0)]

        assert "a became id-2, id-a" in only(DOUBLED, *ops)

    def test_move_makes_another_message(self) -> None:
        moved = receive(20, "a", message_id="id-2")

        kept(redriving(), send(0, "a"), receive(1, "a"), op("move", 15, queue=DEAD), *ended(moved))

    def test_move_does_not_leave_the_first_message(self) -> None:
        ops = [redriving(9), send(0, "a"), receive(1, "a"), op("move", 2, queue=DEAD)]
        moved, old = receive(20, "a", message_id="id-2"), receive(31, "a", 2)

        assert "came while there was id-a" in only(DOUBLED, *ops, moved, *ended(old))

    def test_send_after_a_purge_is_another_message(self) -> None:
        ops = [*life(0, "a", 1), purge(5, FIFO), send(6, "a", 2, message_id="id-2")]

        kept(*ops, *ended(receive(7, "a", number=2, message_id="id-2")))


class TestMiscounted:
    def test_count_that_jumps_is_found(self) -> None:
        ops = [send(0, "a"), receive(1, "a"), *ended(receive(12, "a", 3))]

        assert "has the count 3, not 2 to 2" in only(MISCOUNTED, *ops)

    def test_count_that_stays_is_found(self) -> None:
        found = broken([send(0, "a"), receive(1, "a"), *ended(receive(12, "a"))])

        assert set(found) == {MISCOUNTED}
        assert "has the count 1, not 2 to 2" in found[MISCOUNTED][1]

    def test_receive_for_somebody_who_was_gone_does_not_count(self) -> None:
        ops = [send(0, "a"), leave(1), *ended(receive(3, "a", 2))]

        assert "has the count 2, not 1 to 1" in only(MISCOUNTED, *ops)

    @pytest.mark.parametrize("at", [0.5, 3])
    def test_node_that_was_killed_gives_nothing_back(self, at: float) -> None:
        kept(send(0, "a"), leave(1), kill(at), *ended(receive(8, "a", 2)))

    def test_kill_of_another_node_or_time_is_no_excuse(self) -> None:
        kills = [replace(kill(1), value="1"), kill(7)]

        only(MISCOUNTED, send(0, "a"), leave(1), *kills, *ended(receive(10, "a", 2)))

    def test_receive_of_unknown_outcome_may_count(self) -> None:
        unclear = op("receive", 3, outcome="info", queue=QUEUE)

        kept(send(0, "a"), unclear, *ended(receive(8, "a", 2)))
        kept(send(0, "a"), unclear, *ended(receive(8, "a", 1)))

    def test_receive_of_unknown_outcome_counts_once(self) -> None:
        unclear = op("receive", 3, outcome="info", queue=QUEUE)

        only(MISCOUNTED, send(0, "a"), unclear, *ended(receive(8, "a", 3)))

    @pytest.mark.parametrize(("queue", "at"), [("other", 3), (QUEUE, 12)])
    def test_receive_from_another_queue_or_later_does_not_count(
        self, queue: str, at: float
    ) -> None:
        unclear = op("receive", at, outcome="info", queue=queue)

        only(MISCOUNTED, send(0, "a"), unclear, *ended(receive(8, "a", 2)))

    def test_two_receives_at_once_have_not_the_same_count(self) -> None:
        ops = [send(0, "a"), receive(1, "a", took=11), *ended(receive(2, "a", took=11))]

        found = broken(ops)
        assert set(found) == {MISCOUNTED}
        assert all("as one before had" in finding for finding in found[MISCOUNTED])

    def test_count_goes_on_in_the_dead_letter_queue(self) -> None:
        there = receive(12, "a", 2, queue=DEAD)

        kept(redriving(), send(0, "a"), receive(1, "a"), *ended(there))


class TestDeadLettered:
    def test_message_that_comes_too_often_is_found(self) -> None:
        ops = [redriving(), send(0, "a"), receive(1, "a"), *ended(receive(12, "a", 2))]

        assert "came for the 2th time, of 1" in only(DEAD_LETTERED, *ops)

    def test_message_that_is_dead_too_early_is_found(self) -> None:
        there = receive(12, "a", 2, queue=DEAD)
        ops = [redriving(2), send(0, "a"), receive(1, "a"), *ended(there)]

        assert "came after 1 receives, of 2" in only(DEAD_LETTERED, *ops)

    def test_dead_message_that_is_in_its_first_queue_is_found(self) -> None:
        there, back = receive(12, "a", 4, queue=DEAD), receive(23, "a", 3)
        unclear = [op("receive", 1, outcome="info", queue=QUEUE) for _ in range(3)]
        found = broken([redriving(3), send(0, "a"), *unclear, there, *ended(back)])

        assert any("came after it was in dead" in finding for finding in found[DEAD_LETTERED])
