from support.postgres import Connection
from support.sql import Queue, number

# The bits below the number of the partition.
_BITS = 57


def test_ids_are_random_and_of_the_partition(owner: Connection) -> None:
    owner.execute("update skipmq.cluster set partitions = 64, partition = 63")

    ids = [int(number(owner, "select skipmq.new_queue_id()")) for _ in range(100)]

    assert {id_ >> _BITS for id_ in ids} == {63}
    assert len(set(ids)) == len(ids)
    # Each bit is set in some and not in others: in 100 ids, one in 2^92 is not.
    assert {bit for bit in range(_BITS) if {id_ >> bit & 1 for id_ in ids} == {0, 1}} == set(
        range(_BITS)
    )


def test_queue_that_is_lost_and_created_again_has_another_id(owner: Connection) -> None:
    """As on a standby that lacks the last commits, whose sequences continue from before them."""
    lost = Queue(owner, "orders").id
    for table in ("queue", "generation"):
        owner.execute(f"delete from skipmq.{table}".encode())

    other = Queue(owner, "newsletter").id

    assert other != lost
    assert number(owner, "select count(*) from pg_sequences where sequencename ~ 'queue'") == 0
