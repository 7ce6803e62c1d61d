"""The memory that message bodies may take in a worker, in bytes.

What is large waits for room before its statement runs; small messages are neither counted nor
delayed.
"""

import asyncio
from collections import deque
from contextlib import AbstractContextManager, nullcontext, suppress
from time import monotonic

from skipmq.protocol import errors

# For a worker. The bodies of a result are there twice while they are read or encoded, so that a
# worker grows by twice this.
WORKER_BYTES = 128 * 1_048_576
# Of the messages of one statement, which counts each message once for each of these bytes.
GROUP_BYTES, MESSAGE_BYTES = 16 * 1_048_576, 32_768
# What is less is not counted.
LARGE_BYTES = 65_536
# Messages of this size on average are small.
_SMALL_BYTES = 4_096
# Queues whose sizes are remembered.
_REMEMBERED = 10_000
_FULL = "The node has too many large messages in memory; nothing has been done; try again."


class Held:
    """Bytes of a budget, until `release`, the end of a `with` block, or nothing refers to this."""

    __slots__ = ("_budget", "_loop", "size")

    def __init__(self, budget: "Budget", size: int) -> None:
        self._budget, self._loop, self.size = budget, asyncio.get_running_loop(), size
        budget.free -= size

    def release(self) -> None:
        """Give the bytes back, on the loop."""
        size, self.size = self.size, 0
        self._budget.give_back(size)

    def __enter__(self) -> None:
        """Hold the bytes."""

    def __exit__(self, *_: object) -> None:
        """Give the bytes back."""
        self.release()

    def __del__(self) -> None:
        """Give the bytes back, on any thread."""
        if self.size:
            # A loop that is closed needs none.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._budget.give_back, self.size)


_NONE = nullcontext()


class Budget:
    """The bytes of a worker; for one loop."""

    def __init__(self, size: int = WORKER_BYTES) -> None:
        self.size = self.free = size
        self._waiting: deque[tuple[int, asyncio.Future[Held]]] = deque()
        # The mean size of the messages claimed last, by queue.
        self._sizes: dict[int, int] = {}

    def hold(self, size: int) -> Held | None:
        """Count bytes that are there already; return None if they are few."""
        if size < LARGE_BYTES:
            return None
        return Held(self, size)

    async def room(self, messages: int, size: int, deadline: float) -> AbstractContextManager[None]:
        """Wait until there is room for messages of that size, and return it; few bytes have some.

        `deadline` is a time of time.monotonic. Raises errors.ServiceUnavailable when there is no
        room until then.
        """
        if size < LARGE_BYTES or size <= _SMALL_BYTES * messages:
            return _NONE
        size = min(size, self.size)
        if not self._waiting and size <= self.free:
            return Held(self, size)
        granted: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
        turn = size, granted
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(max(0, deadline - monotonic())):
                return await granted
        except TimeoutError:
            raise errors.ServiceUnavailable(_FULL) from None
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self.give_back(0)

    def give_back(self, size: int) -> None:
        """Give bytes to those who wait, in turn."""
        self.free += size
        while self._waiting and self._waiting[0][0] <= self.free:
            size, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(Held(self, size))

    def expected(self, queue_id: int, messages: int, unknown: int = 0) -> int:
        """Return the size of messages of a queue, each as the last ones were, or `unknown`."""
        return self._sizes.get(queue_id, unknown) * messages

    def knows(self, queue_id: int) -> bool:
        """Return whether messages of a queue were claimed before."""
        return queue_id in self._sizes

    def claimed(self, queue_id: int, messages: int, size: int) -> Held | None:
        """Remember the size of messages that were claimed, and hold it."""
        if len(self._sizes) >= _REMEMBERED:
            self._sizes.clear()
        if not size:
            self._sizes.setdefault(queue_id, 0)
            return None
        self._sizes[queue_id] = max(size // messages, self._sizes.get(queue_id, 0) // 2)
        return self.hold(size) if size >= LARGE_BYTES else None


def weight(messages: int, size: int) -> int:
    """Return the weight of messages in a group, by their number or bytes."""
    return messages if size <= MESSAGE_BYTES * messages else size // MESSAGE_BYTES
