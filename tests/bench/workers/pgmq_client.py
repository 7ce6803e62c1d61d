"""Threads on PGMQ's client, as its README reads and deletes: a batch each, a transaction a job."""

from concurrent.futures import ThreadPoolExecutor

from measured import CONCURRENCY, WORK, Stopwatch, main
from pgmq import PGMQueue
from psycopg_pool import ConnectionPool

QUEUE, BATCH = "bench", 10


def fill(url: str, number: int) -> None:
    with ConnectionPool(url, min_size=1) as pool:
        PGMQueue(pool=pool, init_extension=False).send_batch(
            QUEUE, [{"number": n} for n in range(number)]
        )


def work(url: str, watch: Stopwatch) -> None:
    with ConnectionPool(url, min_size=CONCURRENCY) as pool:
        queue = PGMQueue(pool=pool, init_extension=False)

        def loop(_: int) -> None:
            while found := queue.read_batch(QUEUE, vt=30, batch_size=BATCH):
                for message in found:
                    watch.begin()
                    with pool.connection() as tx:
                        tx.execute(WORK, (message.message["number"],))
                        queue.delete(QUEUE, message.msg_id, conn=tx)
                    watch.end()

        with ThreadPoolExecutor(CONCURRENCY) as threads:
            list(threads.map(loop, range(CONCURRENCY)))


if __name__ == "__main__":
    main(fill, work)
