"""An app: the consumers of a program, and how they are run."""

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from skipmq.client.consumer import Consumer, Options, consumer, name_of
from skipmq.client.context import Context
from skipmq.client.errors import ClientError
from skipmq.client.health import LOOPBACK
from skipmq.client.outcomes import Backoff, Retry
from skipmq.client.queue import Queue, Scheduled, priority_attribute
from skipmq.client.worker import Worker

T = TypeVar("T")
R = TypeVar("R")
B = TypeVar("B")
_BACKOFF = Retry.backoff(2, most=300)


class Decorator(Protocol[B]):
    """Takes a handler of bodies of a type, with a context or without, and returns it as it is."""

    @overload
    def __call__(self, handler: Callable[[B], R], /) -> Callable[[B], R]: ...
    @overload
    def __call__(self, handler: Callable[[B, Context], R], /) -> Callable[[B, Context], R]: ...


class App:
    """The consumers of a program; `dsn` is the URL of the broker's database for a role of its own.

    The role needs `skipmq sql grant ROLE --receive QUEUE` for each queue. With `https://…` or
    `http://…` it is the URL of the broker itself, whose requests are signed by AWS's variables.
    """

    def __init__(self, dsn: str | None = None) -> None:
        self.dsn = dsn
        self.consumers: list[Consumer] = []
        self.schedules: list[Scheduled] = []

    @overload
    def consumer(
        self,
        queue: Queue[T],
        *,
        batch: int,
        seconds: float | None = ...,
        concurrency: int = ...,
        visibility: int = ...,
        extend: bool = ...,
        retry: Backoff = ...,
        attempts: int | None = ...,
    ) -> Decorator[list[T]]: ...
    @overload
    def consumer(
        self,
        queue: Queue[T],
        *,
        concurrency: int = ...,
        visibility: int = ...,
        extend: bool = ...,
        retry: Backoff = ...,
        attempts: int | None = ...,
    ) -> Decorator[T]: ...
    def consumer(  # noqa: PLR0913 - the options of a consumer.
        self,
        queue: Queue[Any],
        *,
        concurrency: int = 1,
        visibility: int = 30,
        extend: bool = True,
        retry: Backoff = _BACKOFF,
        attempts: int | None = None,
        batch: int | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Make a function the handler of a queue's messages: `(body)` or `(body, context)`.

        It returns: the message is deleted. It raises Retry, Discard or DeadLetter; any other error
        hides the message for a delay of `retry`, and after `attempts` receives moves it to the
        dead-letter queue. `concurrency` handlers run at once, in threads where they are no
        coroutines; those of a group of a FIFO queue one after the other. A message is hidden for
        `visibility` seconds, and with `extend` for as long as its handler runs. With `batch` the
        handler takes a list of up to `batch` bodies, waiting `seconds` for it to fill. Raises
        ClientError for a handler that cannot take the messages.
        """
        if not isinstance(queue, Queue):
            raise ClientError(f"{name_of(queue)} is no Queue: @app.consumer(Queue('orders', dict))")
        options = Options(concurrency, visibility, extend, retry, attempts, batch, seconds)

        def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
            found = consumer(queue, handler, options)
            for other in self.consumers:
                if other.queue.arn == queue.arn:
                    raise ClientError(
                        f"{other.name} and {name_of(handler)} would share the messages of"
                        f" {queue.name!r}: an app has one consumer of a queue"
                    )
            self.consumers.append(found)
            return handler

        return declare

    def schedule(  # noqa: PLR0913 - what a schedule has.
        self,
        expression: str,
        body: Any = None,
        *,
        zone: str = "UTC",
        name: str = "",
        group: str = "",
        priority: int | None = None,
    ) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Send a body to the queue of the consumer below by a schedule, which `run` declares.

        `expression` is one of cron, `every 5 minutes` or `at 2027-01-31T08:00`, in a time `zone`.
        Without a body it is `{}`. The schedule has the handler's name, or `name`; a FIFO queue
        needs a `group`, and `priority` is that of the messages. One that was declared before keeps
        its times, if they are the same. Raises ClientError where there is no consumer below.
        """

        def declare(handler: Callable[..., R]) -> Callable[..., R]:
            queue = next((c.queue for c in self.consumers if c.handler is handler), None)
            if queue is None:
                raise ClientError(
                    f"{name_of(handler)} has a schedule and no queue: write @app.consumer(queue)"
                    " between both"
                )
            own = name or str(getattr(handler, "__name__", ""))
            text = queue.encoded({} if body is None else body)
            attributes = priority_attribute(queue, priority)
            self.schedules.append(
                Scheduled(own, queue, expression, text, zone, group or None, attributes)
            )
            return handler

        return declare

    def run(
        self,
        *,
        once: bool = False,
        concurrency: int | None = None,
        grace: float = 30.0,
        health_port: int | None = None,
        health_host: str = LOOPBACK,
    ) -> Counter[str]:
        """Run the consumers until SIGTERM or SIGINT; return the number of messages by outcome.

        With `once` until no message is visible. `concurrency` is that of each consumer instead of
        its own; `grace` are the seconds that handlers have to end. Raises ClientError where it
        cannot begin, and UnfinishedError for handlers that it cut off.
        """
        worker = self._worker(concurrency, grace)

        async def run() -> None:
            loop = asyncio.get_running_loop()
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, worker.interrupt)
            await worker.run(once=once, health_host=health_host, health_port=health_port)

        asyncio.run(run())
        return _outcomes(worker)

    async def arun(
        self, *, once: bool = False, concurrency: int | None = None, grace: float = 30.0
    ) -> Counter[str]:
        """Do what `run` does on the caller's event loop, until the task is cancelled."""
        worker = self._worker(concurrency, grace)
        await worker.run(once=once, health_host=LOOPBACK, health_port=None)
        return _outcomes(worker)

    def drain(self, *, timeout: float = 30.0, dsn: str | None = None) -> Counter[str]:
        """Run the consumers until no message is visible, in a test; raise what a handler raised.

        With `dsn` in that database. Raises TimeoutError when that takes longer than `timeout`
        seconds.
        """
        return asyncio.run(self.adrain(timeout=timeout, dsn=dsn))

    async def adrain(self, *, timeout: float = 30.0, dsn: str | None = None) -> Counter[str]:  # noqa: ASYNC109 - as in `drain`.
        """Do what `drain` does on the caller's event loop."""
        worker = self._worker(None, 0, dsn)
        async with asyncio.timeout(timeout):
            await worker.run(once=True, health_host=LOOPBACK, health_port=None)
        for runner in worker.runners:
            if runner.error is not None:
                raise runner.error
        return _outcomes(worker)

    def _worker(self, concurrency: int | None, grace: float, dsn: str | None = None) -> Worker:
        dsn = dsn or self.dsn
        if dsn is None:
            raise ClientError(
                "the app has no database: App('postgresql://shop@localhost/skipmq'), or"
                " `skipmq work --dsn URL`"
            )
        if not self.consumers:
            raise ClientError("the app has no consumer: decorate a function with @app.consumer")
        return Worker(self.consumers, dsn, self.schedules, concurrency=concurrency, grace=grace)


def _outcomes(worker: Worker) -> Counter[str]:
    return sum((runner.outcomes for runner in worker.runners), Counter[str]())
