"""A worker of Celery on SQS, its URL here a node's; a task is acknowledged when it is done."""

import os
import signal
from urllib.parse import urlsplit

from celery import Celery
from measured import CONCURRENCY, WORK, Stopwatch, main
from psycopg_pool import ConnectionPool


def application(broker: str) -> Celery:
    app = Celery("bench", broker=f"sqs://any:any@{urlsplit(broker).netloc}")
    app.conf.update(
        task_default_queue="jobs",
        task_acks_late=True,
        worker_prefetch_multiplier=4,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "region": "us-east-1", "is_secure": False, "wait_time_seconds": 1,
            "polling_interval": 0.01,
        },
    )  # fmt: skip
    return app


def fill(url: str, number: int) -> None:
    broker, _ = url.split(" ")
    app = application(broker)
    with app.producer_pool.acquire(block=True) as producer:
        for n in range(number):
            app.send_task("work", (n,), producer=producer)


def work(url: str, watch: Stopwatch) -> None:
    broker, database = url.split(" ")
    app = application(broker)
    with ConnectionPool(database, min_size=CONCURRENCY) as pool:

        @app.task(name="work")
        def handle(number: int) -> None:
            watch.begin()
            with pool.connection() as tx:
                tx.execute(WORK, (number,))
            if watch.end():
                os.kill(os.getpid(), signal.SIGTERM)

        worker = app.Worker(pool="threads", concurrency=CONCURRENCY, loglevel="ERROR", quiet=True)
        worker.start()


if __name__ == "__main__":
    main(fill, work)
