"""What runs one consumer: claims its messages, and runs the handler."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import groupby
from time import monotonic
from typing import Any

from skipmq.client import tracing, transactions
from skipmq.client.consumer import Consumer
from skipmq.client.context import Context
from skipmq.client.errors import ClientError
from skipmq.client.message import Message
from skipmq.client.outcomes import DeadLetter, LostMessageError, reason_of
from skipmq.client.settling import Settling
from skipmq.client.source import Source

log = logging.getLogger(__package__)

# The limit of messages of a receive, and of those that are claimed ahead of handlers, if these take
# less time.
_MOST_CLAIMED = 10
_MOST_AHEAD, _QUICK_SECONDS = 20, 0.05
# The pause after a claim that found less than was wanted, and the longest that it is doubled to.
_POLL_SOON, _POLL_SECONDS = 0.05, 1.0
_SECONDS_AFTER_ERROR = 5.0
_BATCH_SECONDS = 1.0


class Runner:
    """Runs a consumer on the worker's loop: handlers that are no coroutines in threads."""

    def __init__(self, consumer: Consumer, source: Source) -> None:
        self.consumer, self.queue, self.options = consumer, consumer.queue, consumer.options
        self._source, self._settling = source, Settling(consumer, source)
        # What became of messages, how often, and what all handlers took.
        self.outcomes = self._settling.outcomes
        self.seconds = 0.0
        # What is at work, and of that whose handlers are not done: the others wait for a delete.
        self._tasks: set[asyncio.Task[None]] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._has_claimed = False
        # What handlers that do not run yet will have, and how long one takes, of late.
        self._ahead, self._usual_seconds = deque[list[list[Message]]](), 1.0
        self._woken, self._freed = asyncio.Event(), asyncio.Event()
        self._threads = ThreadPoolExecutor(
            self.options.concurrency, thread_name_prefix=f"skipmq-{self.queue.name}"
        )

    @property
    def error(self) -> BaseException | None:
        """Return the first error of a handler, if there was one."""
        return self._settling.error

    @property
    def running(self) -> int:
        """Return how many handlers run, or wait behind one of their group."""
        return len(self._handling)

    @property
    def is_busy(self) -> bool:
        """Return whether handlers run, or what they are done with is not settled yet."""
        return bool(self._tasks)

    def wake(self) -> None:
        """Poll now: there may be messages."""
        self._woken.set()

    def stop(self) -> None:
        """Claim no more."""
        self._stopping = True
        self._woken.set()
        self._freed.set()

    async def serve(self) -> None:
        """Claim and run until `stop`; raise ClientError where the first claim shows a mistake."""
        pause = _POLL_SECONDS
        seconds = _BATCH_SECONDS if self.options.seconds is None else self.options.seconds
        while not self._stopping:
            await self._free()
            self._woken.clear()
            try:
                found, wanted = await self._claim_next(seconds)
            except (ClientError, self._source.failure) as error:
                if not self._has_claimed:
                    raise
                log.error("cannot receive from %s: %s", self.queue.name, error)  # noqa: TRY400
                await self._wait(_SECONDS_AFTER_ERROR)
                continue
            await self._start(found)
            pause = _POLL_SOON if found else min(2 * pause, _POLL_SECONDS)
            if len(found) < wanted:
                await self._wait(pause)
        await self._return_ahead()

    async def drain(self) -> int:
        """Claim and run until nothing is visible and nothing runs; return how many were claimed."""
        count = 0
        while not self._stopping:
            await self._free()
            self._freed.clear()
            found, _ = await self._claim_next(0)
            count += len(found)
            await self._start(found)
            if not found:
                if not self._tasks:
                    break
                await self._freed.wait()
        await self._return_ahead()
        return count

    async def extend(self) -> None:
        """Hide what is claimed for longer, again and again, until it is cancelled.

        Without the option this is what waits for its handler. What is claimed ahead of one that is
        not as quick as those before is returned.
        """
        while True:
            first = next(iter(self._ahead), None)
            await asyncio.sleep(self.options.visibility / 3)
            try:
                if first is not None and first is next(iter(self._ahead), None):
                    self._usual_seconds = max(self._usual_seconds, self.options.visibility / 3)
                    await self._return_ahead()
                await self._source.hide(self.queue, self._settling.held, self.options.visibility)
            except (ClientError, self._source.failure) as error:
                log.warning("messages of %s are not hidden for longer: %s", self.queue.name, error)

    async def cut_off(self) -> int:
        """End what still runs, return its messages, and give the number of such handlers."""
        late = list(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_SECONDS_AFTER_ERROR)
        self._settling.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        return len(late)

    async def _free(self) -> None:
        """Wait until there is something to claim for."""
        while not self._wanted() and not self._stopping:
            self._freed.clear()
            await self._freed.wait()

    def _wanted(self) -> int:
        """Return how many messages to claim: one for each handler that may run.

        A claim costs as much as many a job. For quick handlers it takes those that follow, too, ten
        at once. Where deletes take longer than handlers, these wait for them.
        """
        most = self.options.concurrency
        free = most - max(len(self._handling), len(self._tasks) - most) - len(self._ahead)
        is_plain = self.options.batch is None and not self.queue.fifo
        if is_plain and self._usual_seconds < _QUICK_SECONDS:
            free += _MOST_AHEAD
            return free if free >= _MOST_CLAIMED else 0
        return max(free, 0)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if self._stopping else seconds):
                await self._woken.wait()

    async def _claim_next(self, seconds: float) -> tuple[list[Message], int]:
        """Claim for the handlers that may run; return the messages and how many were wanted.

        A batch is waited for so long, from its first message on.
        """
        if self.options.batch is None:
            wanted = min(self._wanted(), _MOST_CLAIMED)
            return await self._claim(wanted), wanted
        most = self.options.batch
        found = await self._claim(most)
        until = monotonic() + seconds
        while found and len(found) < most and not self._stopping:
            try:
                more = await self._claim(most - len(found))
            except (ClientError, self._source.failure):
                return found, most  # The next claim raises it, if it lasts.
            found += more
            if not more and (left := until - monotonic()) <= 0:
                break
            if not more:
                self._woken.clear()
                await self._wait(min(left, _POLL_SECONDS))
        return found, most

    async def _claim(self, most: int) -> list[Message]:
        limit = 0 if self._stopping else min(most, _MOST_CLAIMED)
        if not limit:
            return []
        found = await self._source.claim(self.queue, limit, self.options.visibility)
        self._has_claimed = True
        self._settling.hold(found)
        return found

    async def _start(self, found: list[Message]) -> None:
        """Run handlers on messages: those of a FIFO group one after the other."""
        if self._stopping:
            await self._settling.give_back(found)
        elif self.options.batch is not None:
            self._ahead.extend([[found]] if found else [])
        elif self.queue.fifo:
            for _, group in groupby(found, key=lambda message: message.group):
                self._ahead.append([[message] for message in group])
        else:
            self._ahead.extend([[message]] for message in found)
        self._spawn()

    def _spawn(self) -> None:
        """Start as many handlers as may run."""
        most = self.options.concurrency
        while self._ahead and len(self._handling) < most and not self._stopping:
            task = asyncio.create_task(self._work(self._ahead.popleft()))
            self._tasks.add(task)
            self._handling.add(task)
            task.add_done_callback(self._done)

    async def _return_ahead(self) -> None:
        """Return what was claimed for handlers that will not run."""
        rest = [m for line in self._ahead for each in line for m in each]
        self._ahead.clear()
        await self._settling.give_back(rest)

    def _leave(self, task: asyncio.Task[Any] | None) -> None:
        """Let another handler run: that of this task is done."""
        self._handling.discard(task)
        self._spawn()
        self._freed.set()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._leave(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("messages of %s were not settled", self.queue.name, exc_info=error)

    async def _work(self, line: list[list[Message]]) -> None:
        """Handle what is in a line in its order; return the rest after one that stays."""
        handled, is_settled = 0, True
        try:
            while handled < len(line) and is_settled and not self._stopping:
                is_last = handled == len(line) - 1
                is_settled = await self._handle(line[handled], is_last=is_last)
                handled += 1
            await self._settling.give_back([m for each in line[handled:] for m in each])
        except asyncio.CancelledError:
            await self._settling.give_back([m for each in line[handled:] for m in each])
            raise
        except Exception:
            # That one could not be settled, and is visible again after its timeout.
            await self._settling.give_back([m for each in line[handled + 1 :] for m in each])
            raise
        finally:
            self._settling.release([m for each in line for m in each])

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
            return False  # Another worker has it, and may be at it.
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if _is_cut_off(error):
                tracing.note("returned")
                raise
            tracing.note_error(error)
            return await self._settling.fail(taken, context, error)
        finally:
            self.seconds += (last := monotonic() - began)
            self._usual_seconds += (last - self._usual_seconds) / 8
        if not (context.is_deleted or context.is_delegated):
            if is_last:
                self._leave(asyncio.current_task())
            is_settled = await self._settling.delete(taken)
        self._settling.count("done", len(taken))
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
        most = self.options.attempts
        if most is not None and message.deliveries > most:
            raise DeadLetter(f"received {message.deliveries} times, and {most} are allowed")


def _called(handler: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    try:
        with transactions.renewed():
            return handler(*arguments)
    except StopIteration as error:  # A future cannot have it.
        raise RuntimeError("the handler raised StopIteration") from error


def _is_cut_off(error: BaseException) -> bool:
    """Return whether it is the worker that cancels, and not the handler itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
