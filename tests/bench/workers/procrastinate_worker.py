"""A worker of procrastinate: the work commits by itself, and then the end of the job."""

from measured import CONCURRENCY, WORK, Stopwatch, main
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from psycopg_pool import ConnectionPool


def fill(url: str, number: int) -> None:
    app = App(connector=SyncPsycopgConnector(conninfo=url))
    with app.open():
        task = app.configure_task("work")
        task.batch_defer(*({"number": n} for n in range(number)))


def work(url: str, watch: Stopwatch) -> None:
    app = App(connector=PsycopgConnector(conninfo=url, max_size=CONCURRENCY + 2))
    with ConnectionPool(url, min_size=CONCURRENCY) as pool:

        @app.task(name="work")
        def handle(number: int) -> None:
            watch.begin()
            with pool.connection() as tx:
                tx.execute(WORK, (number,))
            watch.end()

        app.run_worker(concurrency=CONCURRENCY, wait=False)


if __name__ == "__main__":
    main(fill, work)
