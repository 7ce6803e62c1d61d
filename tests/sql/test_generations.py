from support.sql import Queue, advance, number


def test_purged_generations_belong_to_the_queue_that_followed(orders: Queue) -> None:
    owner = orders.connection
    ids = [orders.id]
    for _ in range(2):
        ids.append(number(owner, "select queue_id from skipmq.purge_queue(%s, '0')", ids[-1]))

    def generations(queue: int) -> list[int]:
        found = owner.execute("select queue_id from skipmq.generations(%s)", (queue,)).fetchall()
        return [each for (each,) in found]

    assert generations(ids[-1]) == ids[::-1]
    owner.execute("select skipmq.delete_queue(%s)", (ids[-1],))
    advance(owner, "61 seconds")
    again = Queue(owner)
    assert generations(again.id) == [again.id]
