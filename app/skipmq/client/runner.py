"""What runs one consumer: claims its messages, runs the handler, and settles what it claimed."""

import asyncio
import inspect
import logging
from collections import Counter, deque
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
from skipmq.client.outcomes import DeadLetter, Discard, LostMessageError, Retry, reason_of
from skipmq.client.source import Source

log = logging.getLogger(__package__)

# The limit of messages of a receive.
_MOST_CLAIMED = 10
# The pause after a claim that found less than was wanted, and the longest that it is doubled to.
_POLL_SOON, _POLL_SECONDS = 0.05, 1.0
_SECONDS_AFTER_ERROR = 5.0
_BATCH_SECONDS = 1.0
# Handlers that take less have messages claimed ahead of time.
_QUICK_SECONDS = 0.05
# The longest that one without a dead-letter queue is hidden, and that any message can be.
_HOPELESS_SECONDS, _MAXIMUM_SECONDS = 3_600, 43_200


class Runner:
    """Runs a consumer on the worker's loop: handlers that are no coroutines in threads."""

    def __init__(self, consumer: Consumer, source: Source) -> None:
        self.consumer, self.queue, self.options = consumer, consumer.queue, consumer.options
        # What became of messages, how often; what all handlers took; the first error of one.
        self.outcomes: Counter[str] = Counter()
        self.seconds = 0.0
        self.error: BaseException | None = None
        self._source = source
        # What is claimed and not settled yet, by number.
        self._held: dict[int | str, Message] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._has_claimed = False
        # What handlers that do not run yet will have, and how long one takes, of late.
        self._ahead, self._usual_seconds = deque[list[list[Message]]](), 1.0
        self._woken, self._freed = asyncio.Event(), asyncio.Event()
        self._threads = ThreadPoolExecutor(
            self.options.concurrency, thread_name_prefix=f"skipmq-{self.queue.name}"
        )

    @property
    def running(self) -> int:
        """Return how many handlers run, or wait behind one of their group."""
        return len(self._tasks)

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
        """Hide what is claimed for longer, again and again, until it is cancelled."""
        while self.options.extend:
            await asyncio.sleep(self.options.visibility / 3)
            try:
                await self._source.hide(self.queue, self._claimed, self.options.visibility)
            except (ClientError, self._source.failure) as error:
                log.warning("messages of %s are not hidden for longer: %s", self.queue.name, error)

    async def cut_off(self) -> int:
        """End what still runs, return its messages, and give the number of such handlers."""
        late = list(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_SECONDS_AFTER_ERROR)
        self._threads.shutdown(wait=False, cancel_futures=True)
        return len(late)

    async def _free(self) -> None:
        """Wait until there is something to claim for."""
        while not self._wanted() and not self._stopping:
            self._freed.clear()
            await self._freed.wait()

    def _wanted(self) -> int:
        """Return how many messages to claim: one for each handler that may run.

        A claim costs as much as many a job. For quick handlers it takes those that follow, too,
        and is made when half of these are left.
        """
        free = self.options.concurrency - len(self._tasks) - len(self._ahead)
        is_plain = self.options.batch is None and not self.queue.fifo
        if is_plain and self._usual_seconds < _QUICK_SECONDS:
            free += _MOST_CLAIMED
            return free if 2 * free >= _MOST_CLAIMED else 0
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
        self._held.update((message.number, message) for message in found)
        return found

    async def _start(self, found: list[Message]) -> None:
        """Run handlers on messages: those of a FIFO group one after the other."""
        if self._stopping:
            await self._return(found)
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
        while self._ahead and len(self._tasks) < self.options.concurrency and not self._stopping:
            task = asyncio.create_task(self._work(self._ahead.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    async def _return_ahead(self) -> None:
        """Return what was claimed for handlers that will not run."""
        rest = [m for line in self._ahead for each in line for m in each]
        self._ahead.clear()
        await self._return(rest)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._spawn()
        self._freed.set()
        if not task.cancelled() and (error := task.exception()):
            log.error("messages of %s were not settled", self.queue.name, exc_info=error)

    async def _work(self, line: list[list[Message]]) -> None:
        """Handle what is in a line in its order; return the rest after one that stays."""
        handled, is_settled = 0, True
        try:
            while handled < len(line) and is_settled and not self._stopping:
                is_settled = await self._handle(line[handled])
                handled += 1
            await self._return([m for each in line[handled:] for m in each])
        except asyncio.CancelledError:
            await self._return([m for each in line[handled:] for m in each])
            raise
        except Exception:
            # That one could not be settled, and is visible again after its timeout.
            await self._return([m for each in line[handled + 1 :] for m in each])
            raise
        finally:
            self._release([m for each in line for m in each])

    async def _handle(self, messages: list[Message]) -> bool:
        """Run the handler within a span; return whether its messages are settled."""
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
                    is_settled &= await self._dead_letter([message], reason_of(error))
            if taken:
                is_settled &= await self._run(taken, values if is_batch else values[0])
            return is_settled

    async def _run(self, taken: list[Message], value: Any) -> bool:
        """Call the handler and settle its messages; return whether they are."""
        release = partial(self._release, taken)
        is_async = self.consumer.is_async
        context = Context(self.queue, taken, self._source, release, is_async=is_async)
        is_settled = True
        began = monotonic()
        try:
            await self._call(value, context)
        except LostMessageError as error:
            tracing.note_error(error)
            self._count("lost", len(taken))
            log.warning("%s was rolled back: %s", self.consumer.name, error)
            return False  # Another worker has it, and may be at it.
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if _is_cut_off(error):
                tracing.note("returned")
                raise
            tracing.note_error(error)
            return await self._fail(taken, context, error)
        finally:
            self.seconds += (last := monotonic() - began)
            self._usual_seconds += (last - self._usual_seconds) / 8
        if not (context.is_deleted or context.is_delegated):
            is_settled = await self._delete(taken)
        self._count("done", len(taken))
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

    async def _fail(self, messages: list[Message], context: Context, error: BaseException) -> bool:
        """Do what the error of a handler asks for; return whether the messages are settled."""
        name = self.consumer.name
        if context.is_deleted:
            log.error("%s failed after its commit of %s", name, _ids(messages), exc_info=error)
            self._count("done", len(messages))
            return True
        if isinstance(error, Discard):
            log.info("%s discarded %s: %s", name, _ids(messages), error)
            is_settled = await self._delete(messages)
            self._count("discarded", len(messages))
            return is_settled
        if isinstance(error, DeadLetter):
            return await self._dead_letter(messages, reason_of(error))
        if not isinstance(error, Retry):
            self.error = self.error or error
            log.error("%s failed on %s", name, _ids(messages), exc_info=error)
        is_settled = True
        for message in messages:
            most = self.options.attempts
            if most is not None and message.deliveries >= most:
                is_settled &= await self._dead_letter([message], reason_of(error))
                continue
            after = error.after if isinstance(error, Retry) else None
            if after is None:
                after = self.options.retry.seconds(message.deliveries)
            seconds = min(max(round(after), 0), _MAXIMUM_SECONDS)
            self._release([message])
            await self._source.hide(self.queue, [message], seconds, reason_of(error))
            self._count("retried", 1)
            is_settled = False
        return is_settled

    def _count(self, outcome: str, number: int) -> None:
        """Count what became of messages, in the span that handled them too."""
        self.outcomes[outcome] += number
        tracing.note(outcome)

    def _check_attempts(self, message: Message) -> None:
        most = self.options.attempts
        if most is not None and message.deliveries > most:
            raise DeadLetter(f"received {message.deliveries} times, and {most} are allowed")

    async def _dead_letter(self, messages: Sequence[Message], reason: str) -> bool:
        """Move messages to the dead-letter queue; return False where there is none."""
        self._release(messages)
        try:
            moved = await self._source.dead_letter(self.queue, messages, reason)
        except ClientError as error:
            log.error(  # noqa: TRY400 - the text says all.
                "%s stays in %s (%s), and is hidden for an hour: give the queue a RedrivePolicy."
                " Reason: %s",
                *(_ids(messages), self.queue.name, error, reason),
            )
            await self._source.hide(self.queue, messages, _HOPELESS_SECONDS, reason)
            self._count("retried", len(messages))
            return False
        if moved < len(messages):
            return self._note_lost(messages)
        log.warning("%s of %s is dead-lettered: %s", _ids(messages), self.queue.name, reason)
        self._count("dead-lettered", len(messages))
        return True

    async def _delete(self, messages: Sequence[Message]) -> bool:
        """Delete messages; return whether all were still this worker's."""
        self._release(messages)
        deleted = await self._source.delete(self.queue, messages)
        return deleted == len(messages) or self._note_lost(messages)

    def _note_lost(self, messages: Sequence[Message]) -> bool:
        log.warning("%s took too long: another received %s", self.consumer.name, _ids(messages))
        return False

    async def _return(self, messages: Sequence[Message]) -> None:
        """Give messages back as if they had not been received."""
        if messages:
            self._release(messages)
            await self._source.give_back(self.queue, messages)
            self.outcomes["returned"] += len(messages)

    def _release(self, messages: Sequence[Message]) -> None:
        """Hide messages for longer no more: they are about to be settled."""
        for message in messages:
            if self._held.get(message.number) is message:  # Not a later receive of it.
                del self._held[message.number]

    def _claimed(self) -> list[Message]:
        return list(self._held.values())


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


def _ids(messages: Sequence[Message]) -> str:
    return ", ".join(message.id for message in messages)
