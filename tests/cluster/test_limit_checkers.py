"""The rules of limits and topics let pass what is allowed, and tell of what is not."""

from cluster.checkers import CHECKERS, exceeded
from cluster.record import Record
from cluster.story import QUEUE, closing, fault, op, receive, send, settle
from cluster.test_checkers import LOST, broken

EXCEEDED, DIVIDED = [*CHECKERS][6:8]


class TestExceeded:
    LIMIT = op("queue", 0, queue=QUEUE, receive_count=1)

    def test_two_in_flight_of_one_are_found(self) -> None:
        ops = [send(0, "a"), send(0, "b"), receive(1, "a"), receive(3, "b")]
        ends = [settle("delete", 5, ops[2]), settle("delete", 6, ops[3])]

        found = broken([self.LIMIT, *ops, *ends, *closing()])

        assert set(found) == {EXCEEDED}
        assert "b was one of 2 in flight" in found[EXCEEDED][0]

    def test_next_one_may_come_when_the_first_is_deleted_or_visible(self) -> None:
        shown = receive(3, "b", visibility=1)
        ops = [send(0, "a"), send(0, "b"), send(0, "c"), receive(1, "a"), shown, receive(5, "c")]
        ends = [settle("delete", 2, ops[3]), settle("delete", 6, ops[5])]

        again = receive(7, "b", 2)
        assert not broken([self.LIMIT, *ops, *ends, again, settle("delete", 8, again), *closing()])

    def test_claim_that_a_failover_undid_does_not_count(self) -> None:
        ops = [send(0, "a"), send(0, "b"), receive(50, "a"), receive(51, "b")]
        ends = [settle("delete", 52, ops[2]), settle("delete", 53, ops[3])]

        assert [*exceeded(Record([self.LIMIT, *ops, *ends]))]
        assert not [*exceeded(Record([self.LIMIT, *ops, *ends, *fault("server-crash", 50.2)]))]


class TestDivided:
    def test_message_that_comes_from_one_queue_alone_is_found(self) -> None:
        received = receive(1, "a", number=1, queue="ledger.fifo")
        ops = [
            *(
                op("send", 0, value="a", queue=name, group="g")
                for name in ("ledger.fifo", "mirror")
            ),
            *(received, settle("delete", 2, received)),
        ]
        found = broken([*ops, *closing("ledger.fifo", "mirror")])

        assert set(found) == {DIVIDED, LOST}
        assert "'ledger.fifo': 1, 'mirror': 0" in found[DIVIDED][0]

    def test_message_that_comes_twice_from_a_queue_is_found(self) -> None:
        came = [
            receive(1, "a", number=1, queue="ledger.fifo"),
            receive(3, "a", queue="mirror"),
            receive(5, "a", queue="mirror", message_id="id-2"),
        ]
        sends = [
            op("send", at, value="a", queue=name, group="g")
            for name in ("ledger.fifo", "mirror")
            for at in (0, 0.2)
        ]
        ends = [settle("delete", each.t_ok + 1, each) for each in came]
        found = broken([*sends, *came, *ends, *closing("ledger.fifo", "mirror")])

        assert set(found) == {DIVIDED}
