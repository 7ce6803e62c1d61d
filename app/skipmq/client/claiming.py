"""Claims the messages of one consumer."""

import asyncio
import logging
from contextlib import suppress
from time import monotonic

from skipmq.client.consumer import Consumer
from skipmq.client.errors import ClientError
from skipmq.client.message import Message
from skipmq.client.running import Running
from skipmq.client.settling import Settling
from skipmq.client.source import Source

log = logging.getLogger(__package__)

# The limits of a receive, and of messages that are claimed ahead of handlers that take less time.
_MAX_CLAIM, _MAX_AHEAD, _QUICK_SECONDS = 10, 20, 0.05
# The pause after a claim that returned less than its limit is doubled from the first to the second.
_POLL_SOON, _POLL_SECONDS = 0.05, 1.0
_SECONDS_AFTER_ERROR = 5.0
_BATCH_SECONDS = 1.0


class Runner:
    """Claims messages for a consumer and has its handlers run on them."""

    def __init__(self, consumer: Consumer, source: Source) -> None:
        self.queue, self.options = consumer.queue, consumer.options
        self._source, self._settling = source, Settling(consumer, source)
        self._running = Running(consumer, source, self._settling)
        # The number of messages by their outcome.
        self.outcomes = self._settling.outcomes
        self._has_claimed = False
        self._woken = asyncio.Event()

    @property
    def error(self) -> BaseException | None:
        """Return the first error of a handler, if there was one."""
        return self._settling.error

    @property
    def running(self) -> int:
        """Return the number of handlers that run, or wait behind one of their group."""
        return len(self._running.handling)

    @property
    def seconds(self) -> float:
        """Return the time that all handlers took."""
        return self._running.seconds

    @property
    def is_busy(self) -> bool:
        """Return whether handlers run, or their messages are not settled yet."""
        return bool(self._running.tasks)

    def wake(self) -> None:
        """Poll now: there may be messages."""
        self._woken.set()

    def stop(self) -> None:
        """Claim no more."""
        self._running.stop()
        self._woken.set()

    async def serve(self) -> None:
        """Claim and run until `stop`; raise ClientError where the first claim shows a mistake."""
        pause = _POLL_SECONDS
        seconds = _BATCH_SECONDS if self.options.seconds is None else self.options.seconds
        while not self._running.is_stopping:
            await self._free()
            self._woken.clear()
            try:
                found, limit = await self._claim_next(seconds)
            except (ClientError, self._source.failure) as error:
                if not self._has_claimed:
                    raise
                log.error("cannot receive from %s: %s", self.queue.name, error)  # noqa: TRY400
                await self._wait(_SECONDS_AFTER_ERROR)
                continue
            await self._running.start(found)
            pause = _POLL_SOON if found else min(2 * pause, _POLL_SECONDS)
            if len(found) < limit:
                await self._wait(pause)
        await self._running.return_ahead()

    async def drain(self) -> int:
        """Claim and run until nothing is visible and nothing runs; return the number claimed."""
        count, freed = 0, self._running.freed
        while not self._running.is_stopping:
            await self._free()
            freed.clear()
            found, _ = await self._claim_next(0)
            count += len(found)
            await self._running.start(found)
            if not found:
                if not self.is_busy:
                    break
                await freed.wait()
        await self._running.return_ahead()
        return count

    async def extend(self) -> None:
        """Hide claimed messages again before their timeout ends, until it is cancelled.

        Without the option only those that wait for their handler. Those claimed ahead of a handler
        that is slower than the ones before it are returned.
        """
        running = self._running
        while True:
            first = next(iter(running.ahead), None)
            await asyncio.sleep(self.options.visibility / 3)
            try:
                if first is not None and first is next(iter(running.ahead), None):
                    running.usual_seconds = max(running.usual_seconds, self.options.visibility / 3)
                    await running.return_ahead()
                await self._source.hide(self.queue, self._settling.held, self.options.visibility)
            except (ClientError, self._source.failure) as error:
                log.warning("messages of %s are not hidden for longer: %s", self.queue.name, error)

    async def cut_off(self) -> int:
        """End what still runs, return its messages, and return the number of such handlers."""
        late = await self._running.cut_off()
        self._settling.cancel()
        return late

    async def _free(self) -> None:
        """Wait until there is something to claim for."""
        while not self._limit() and not self._running.is_stopping:
            self._running.freed.clear()
            await self._running.freed.wait()

    def _limit(self) -> int:
        """Return the number of messages to claim: one for each handler that may run.

        A claim costs as much as several jobs. For quick handlers it also takes those that follow,
        ten at once. Where deletes take longer than handlers, these wait for them.
        """
        running, concurrency = self._running, self.options.concurrency
        busy = max(len(running.handling), len(running.tasks) - concurrency)
        free = concurrency - busy - len(running.ahead)
        is_plain = self.options.batch is None and not self.queue.fifo
        if is_plain and running.usual_seconds < _QUICK_SECONDS:
            free += _MAX_AHEAD
            return free if free >= _MAX_CLAIM else 0
        return max(free, 0)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if self._running.is_stopping else seconds):
                await self._woken.wait()

    async def _claim_next(self, seconds: float) -> tuple[list[Message], int]:
        """Claim for the handlers that may run; return the messages and their limit.

        A batch is waited for `seconds` after its first message.
        """
        if self.options.batch is None:
            limit = min(self._limit(), _MAX_CLAIM)
            return await self._claim(limit), limit
        limit = self.options.batch
        found = await self._claim(limit)
        until = monotonic() + seconds
        while found and len(found) < limit and not self._running.is_stopping:
            try:
                more = await self._claim(limit - len(found))
            except (ClientError, self._source.failure):
                return found, limit  # The next claim raises it, if it lasts.
            found += more
            if not more and (left := until - monotonic()) <= 0:
                break
            if not more:
                self._woken.clear()
                await self._wait(min(left, _POLL_SECONDS))
        return found, limit

    async def _claim(self, limit: int) -> list[Message]:
        limit = 0 if self._running.is_stopping else min(limit, _MAX_CLAIM)
        if not limit:
            return []
        found = await self._source.claim(self.queue, limit, self.options.visibility)
        self._has_claimed = True
        self._settling.hold(found)
        return found
