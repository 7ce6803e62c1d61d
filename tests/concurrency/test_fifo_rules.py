"""The rules of FIFO queues let pass what is allowed, and find what is not."""

import pytest

from cluster.history import Op
from cluster.story import FIFO, life, receive, send, settle
from concurrency.rules import broken
from concurrency.story import (
    DEAD,
    DISORDERED,
    DOUBLED,
    MISNUMBERED,
    OVERTAKEN,
    REPEATED,
    ended,
    kept,
    only,
    purge,
    redriving,
)


class TestMisnumbered:
    def test_smaller_number_of_a_later_send_is_found(self) -> None:
        ops = [send(0, "a", 2), send(1, "b", 1)]
        one, two = receive(2, "b", number=1), receive(2, "a", number=2, place=1)

        assert "b, number 1, was sent after a" in only(MISNUMBERED, *ops, *ended(one), *ended(two))

    def test_sends_at_one_time_have_no_order(self) -> None:
        ops = [send(0, "a", 2), send(0.05, "b", 1)]
        one, two = receive(2, "b", number=1), receive(2, "a", number=2, place=1)

        kept(*ops, *ended(one), *ended(two))

    def test_other_groups_have_an_order_of_their_own(self) -> None:
        ops = [send(0, "a", 2), send(1, "b", 1, group="h")]
        one, two = receive(2, "b", number=1, group="h"), receive(2, "a", number=2, place=1)

        kept(*ops, *ended(one), *ended(two))

    def test_second_number_of_a_message_is_found(self) -> None:
        ops = [send(0, "a", 1), *ended(receive(1, "a", number=2))]

        assert "has the numbers [1, 2]" in only(MISNUMBERED, *ops)


class TestDisordered:
    def test_message_that_comes_ahead_of_one_that_comes_later_is_found(self) -> None:
        ops = [send(0, "a", 1), send(1, "b", 2), *ended(receive(2, "b", number=2))]

        assert "b, number 2, came while id-a" in only(
            DISORDERED, *ops, *ended(receive(5, "a", number=1))
        )

    def test_message_that_comes_ahead_of_one_that_nobody_took_is_found(self) -> None:
        first, second = receive(2, "a", number=1), receive(20, "b", number=2)
        ops = [send(0, "a", 1), send(1, "b", 2), first, *ended(second, after=0)]

        only(DISORDERED, *ops, settle("delete", 30, first, outcome="info"))

    def test_order_within_one_receive_is_that_of_numbers(self) -> None:
        one, two = receive(2, "b", number=2), receive(2, "a", number=1, place=1)
        ops = [send(0, "a", 1), send(1, "b", 2), *ended(one), *ended(two)]

        assert "b came before a in one receive" in only(DISORDERED, *ops)

    def test_message_may_come_with_one_ahead_that_comes_again(self) -> None:
        one, two = receive(2, "a", number=1), receive(2, "b", number=2, place=1)
        again = receive(20, "a", 2, number=1)

        kept(send(0, "a", 1), send(1, "b", 2), one, *ended(two), *ended(again))

    @pytest.mark.parametrize("taker", [purge(4, FIFO), purge(4, FIFO, outcome="info")])
    def test_message_may_come_when_a_purge_took_what_was_ahead(self, taker: Op) -> None:
        ops = [send(0, "a", 1), receive(2, "a", number=1), taker, send(5, "b", 2)]

        kept(*ops, *ended(receive(6, "b", number=2)))

    def test_message_may_come_when_the_one_ahead_is_dead(self) -> None:
        ops = [redriving(1, FIFO), send(0, "a", 1), send(1, "b", 2), receive(2, "a", number=1)]
        dead = receive(16, "a", 2, number=3, queue=DEAD)

        kept(*ops, *ended(receive(14, "b", number=2)), *ended(dead))

    def test_message_may_not_come_when_the_one_ahead_cannot_be_dead(self) -> None:
        ops = [redriving(2, FIFO), send(0, "a", 1), send(1, "b", 2), receive(2, "a", number=1)]
        ops += ended(receive(14, "b", number=2))
        again = receive(16, "a", 2, number=1)

        only(DISORDERED, *ops, *ended(again))


class TestOvertaken:
    def test_message_that_comes_while_one_ahead_is_in_flight_is_found(self) -> None:
        one, two = receive(2, "a", number=1), receive(4, "b", number=2, process="q")
        found = broken(
            [send(0, "a", 1), send(1, "b", 2), one, *ended(two), settle("delete", 9, one)]
        )

        assert set(found) == {OVERTAKEN, DISORDERED}
        assert "b came to q while p had a" in found[OVERTAKEN][0]

    def test_message_that_was_received_with_one_ahead_waits_for_it_too(self) -> None:
        one, two = receive(2, "a", number=1), receive(2, "b", number=2, place=1, visibility=1)
        longer = settle("hide", 3, one, visibility=30)
        again = receive(15, "b", 2, number=2)
        ops = [send(0, "a", 1), send(1, "b", 2), one, two, longer, settle("delete", 20, one)]
        found = broken([*ops, *ended(again)])

        assert set(found) == {OVERTAKEN, DISORDERED}

    def test_message_ahead_may_come_while_one_behind_is_in_flight(self) -> None:
        one, two = receive(2, "a", number=1), receive(2, "b", number=2, place=1)
        again = receive(5, "a", 2, number=1)

        kept(
            *(send(0, "a", 1), send(1, "b", 2), one, two, settle("hide", 3, one)),
            *(*ended(again), settle("delete", 7, two)),
        )

    def test_other_groups_go_on(self) -> None:
        one, two = receive(2, "a", number=1), receive(3, "b", number=2, group="h")

        kept(send(0, "a", 1), send(1, "b", 2, group="h"), *ended(one, 2), *ended(two))


class TestRepeated:
    def test_second_message_under_an_id_is_found(self) -> None:
        ops = [*life(0, "a", 1), send(5, "a", 2, message_id="id-2")]
        found = broken([*ops, *ended(receive(6, "a", number=2, message_id="id-2"))])

        assert set(found) == {REPEATED, DOUBLED}
        assert "a became id-a and id-2" in found[REPEATED][0]

    def test_second_send_under_an_id_gives_the_first_message(self) -> None:
        kept(*life(0, "a", 1), send(5, "a", 1))

    def test_purge_clears_it(self) -> None:
        ops = [*life(0, "a", 1), purge(4, FIFO), send(5, "a", 2, message_id="id-2")]

        kept(*ops, *ended(receive(6, "a", number=2, message_id="id-2")))

    def test_one_purge_clears_it_once(self) -> None:
        ops = [*life(0, "a", 1), purge(4, FIFO), send(5, "a", 2, message_id="id-2")]
        ops += ended(receive(6, "a", number=2, message_id="id-2"))
        ops += [send(8, "a", 3, message_id="id-3")]

        assert "a became id-2 and id-3" in only(
            REPEATED, *ops, *ended(receive(9, "a", number=3, message_id="id-3"))
        )

    def test_id_that_a_purge_did_not_clear_is_found(self) -> None:
        ops = [*life(0, "a", 1), purge(4, FIFO), send(5, "a", 1)]

        assert "a was sent after a purge and is id-a of before" in only(REPEATED, *ops)
