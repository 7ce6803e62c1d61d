from support.sql import Queue, number

SHARD = "select skipmq.shard_of(%s, %s, clock_timestamp())"


def test_shard_of_a_tenant_is_1_while_it_is_noisy(orders: Queue) -> None:
    orders.connection.execute(
        "insert into skipmq.noisy_tenant values"
        " (%(queue)s, 'noisy', clock_timestamp() + '1 minute'),"
        " (%(queue)s, 'former', clock_timestamp() - interval '1 second')",
        {"queue": orders.id},
    )

    shards = [number(orders.connection, SHARD, orders.id, t) for t in ("noisy", "former", "quiet")]

    assert shards == [1, 0, 0]
