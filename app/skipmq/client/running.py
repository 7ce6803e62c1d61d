"""Runs the handlers of a consumer on the messages that have been claimed for them."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import groupby
from time import monotonic
from typing import Any

from skipmq.client import tracing, transactions
from skipmq.client.consumer import Consumer
from skipmq.client.context import Context
from skipmq.client.message import Message
from skipmq.client.outcomes import DeadLetter, LostMessageError, reason_of
from skipmq.client.settling import Settling
from skipmq.client.source import Source

log = logging.getLogger(__package__)

_CUT_OFF_SECONDS = 5.0


class Running:
    """Runs handlers on the worker's loop, and those that are no coroutines in threads."""

    def __init__(self, consumer: Consumer, source: Source, settling: Settling) -> None:
        self.consumer, self.queue, self.options = consumer, consumer.queue, consumer.options
        self._source, self._settling = source, settling
        # Messages of handlers that do not run yet: backlogs, each of batches in their order.
        self.ahead = deque[list[list[Message]]]()
        # Tasks, and those of them whose handlers still run: the others wait for a delete.
        self.tasks: set[asyncio.Task[None]] = set()
        self.handling: set[asyncio.Task[None]] = set()
        # The time that all handlers took, and a moving average of that of one.
        self.seconds, self.usual_seconds = 0.0, 1.0
        self.is_stopping = False
        # Set when a handler ends.
        self.freed = asyncio.Event()
        self._threads = ThreadPoolExecutor(
            self.options.concurrency, thread_name_prefix=f"skipmq-{self.queue.name}"
        )

    def stop(self) -> None:
        """Start no more handlers."""
        self.is_stopping = True
        self.freed.set()

    async def start(self, found: list[Message]) -> None:
        """Run handlers on messages: those of a FIFO group one after the other."""
        if self.is_stopping:
            await self._settling.give_back(found)
        elif self.options.batch is not None:
            self.ahead.extend([[found]] if found else [])
        elif self.queue.fifo:
            for _, group in groupby(found, key=lambda message: message.group):
                self.ahead.append([[message] for message in group])
        else:
            self.ahead.extend([[message]] for message in found)
        self._spawn()

    async def return_ahead(self) -> None:
        """Return what was claimed for handlers that will not run."""
        rest = [m for backlog in self.ahead for each in backlog for m in each]
        self.ahead.clear()
        await self._settling.give_back(rest)

    async def cut_off(self) -> int:
        """End the handlers that still run, return their messages, and return their number."""
        late = list(self.tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CUT_OFF_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)
        return len(late)

    def _spawn(self) -> None:
        limit = self.options.concurrency
        while self.ahead and len(self.handling) < limit and not self.is_stopping:
            task = asyncio.create_task(self._work(self.ahead.popleft()))
            self.tasks.add(task)
            self.handling.add(task)
            task.add_done_callback(self._done)

    def _leave(self, task: asyncio.Task[Any] | None) -> None:
        """Let another handler run: that of this task has ended."""
        self.handling.discard(task)
        self._spawn()
        self.freed.set()

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._leave(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("messages of %s were not settled", self.queue.name, exc_info=error)

    async def _work(self, backlog: list[list[Message]]) -> None:
        """Handle a backlog in its order; return the rest after one that is not settled."""
        handled, is_settled = 0, True
        try:
            while handled < len(backlog) and is_settled and not self.is_stopping:
                is_last = handled == len(backlog) - 1
                is_settled = await self._handle(backlog[handled], is_last=is_last)
                handled += 1
            await self._settling.give_back([m for each in backlog[handled:] for m in each])
        except asyncio.CancelledError:
            await self._settling.give_back([m for each in backlog[handled:] for m in each])
            raise
        except Exception:
            # That one could not be settled, and is visible again after its timeout.
            await self._settling.give_back([m for each in backlog[handled + 1 :] for m in each])
            raise
        finally:
            self._settling.release([m for each in backlog for m in each])

    async def _handle(self, messages: list[Message], *, is_last: bool) -> bool:
        """Run the handler within a span; return whether its messages are settled."""
        if not self.options.extend:
            self._settling.release(messages)
        is_batch = self.options.batch is not None
        with tracing.processed(self.queue.name, messages, is_batch=is_batch):
            taken, values, is_settled = [], [], True
            for message in messages:
                try:
                    self._check_attempts(message)
                    values.append(self.consumer.decode(message.text))
                    taken.append(message)
                except Exception as error:  # noqa: BLE001 - what a codec raises is its own.
                    tracing.note_error(error)
                    is_settled &= await self._settling.dead_letter([message], reason_of(error))
            if taken:
                is_settled &= await self._run(
                    taken, values if is_batch else values[0], is_last=is_last
                )
            return is_settled

    async def _run(self, taken: list[Message], value: Any, *, is_last: bool) -> bool:
        """Call the handler and settle its messages; return whether they are."""
        release = partial(self._settling.release, taken)
        is_async = self.consumer.is_async
        context = Context(self.queue, taken, self._source, release, is_async=is_async)
        is_settled = True
        began = monotonic()
        try:
            await self._call(value, context)
        except LostMessageError as error:
            tracing.note_error(error)
            self._settling.count("lost", len(taken))
            log.warning("%s was rolled back: %s", self.consumer.name, error)
            return False  # Another worker has it, and may be handling it.
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if _is_cut_off(error):
                tracing.note("returned")
                raise
            tracing.note_error(error)
            return await self._settling.fail(taken, context, error)
        finally:
            self.seconds += (last := monotonic() - began)
            self.usual_seconds += (last - self.usual_seconds) / 8
        if not (context.is_deleted or context.is_delegated):
            if is_last:
                self._leave(asyncio.current_task())
            is_settled = await self._settling.delete(taken)
        self._settling.count("done", len(taken))
        if log.isEnabledFor(logging.INFO):
            name, ids = self.consumer.name, ", ".join(message.id for message in taken)
            log.info("%s done: queue %s, message %s, %d ms", name, self.queue.name, ids, last * 1e3)
        return is_settled

    async def _call(self, value: Any, context: Context) -> None:
        arguments = (value, context) if self.consumer.takes_context else (value,)
        if self.consumer.is_async:
            async with transactions.arenewed():
                await self.consumer.handler(*arguments)
            return
        call = partial(copy_context().run, _called, self.consumer.handler, arguments)
        result = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        if inspect.isawaitable(result):  # Of a coroutine function that something else wraps.
            await result

    def _check_attempts(self, message: Message) -> None:
        limit = self.options.attempts
        if limit is not None and message.deliveries > limit:
            raise DeadLetter(f"received {message.deliveries} times, and {limit} are allowed")


def _called(handler: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    try:
        with transactions.renewed():
            return handler(*arguments)
    except StopIteration as error:  # A future cannot have it.
        raise RuntimeError("the handler raised StopIteration") from error


def _is_cut_off(error: BaseException) -> bool:
    """Return whether the worker cancels the task, and not the handler itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
