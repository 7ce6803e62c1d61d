"""A worker of SkipMQ's client: the work and the delete of its message are one transaction."""

import psycopg
from measured import CONCURRENCY, WORK, Stopwatch, main

from skipmq import App, Context, Queue

QUEUE = Queue("jobs", dict)


def fill(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        QUEUE.send_many(({"number": n} for n in range(number)), using=connection)


def work(url: str, watch: Stopwatch) -> None:
    app = App(url)

    @app.consumer(QUEUE, concurrency=CONCURRENCY)
    def handle(body: dict[str, int], context: Context) -> None:
        watch.begin()
        with context.transaction() as tx:
            tx.execute(WORK, (body["number"],))
        watch.end()

    app.run(once=True)


if __name__ == "__main__":
    main(fill, work)
