"""Listen for notifications of other processes: new messages, waiting receivers, changes."""

from collections.abc import AsyncIterator, Callable

from skipmq.broker.messages.waiters.notifier import CHANGED, CHANNEL, KEYS, SENT, WAITING, Notifier
from skipmq.broker.messages.waiters.registry import Waiters
from skipmq.database.pool import Pool
from skipmq.database.wakeup import listen

# The waiters to wake on a notification, which has no number of messages; a waiter that finds some
# wakes the next.
WOKEN = 2


class Listener:
    """A task that listens to each database.

    `databases` yields several where queues are spread over partitions.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is a part of the node.
        self,
        databases: Callable[[], AsyncIterator[Pool]],
        process: str,
        waiters: Waiters,
        notifier: Notifier,
        forget: Callable[[str | None], None],
        keys_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._databases = databases
        self._process = process
        self._waiters = waiters
        self._notifier = notifier
        # Removes a queue, or all, from the cache.
        self._forget = forget
        self._keys_changed = keys_changed

    async def run(self) -> None:
        """Listen until cancelled."""
        await listen(self._databases(), CHANNEL, self.handle)

    def handle(self, payload: str | None) -> None:
        """Handle one notification; None where earlier ones may be lost."""
        if payload is None:
            # Reset the caches and poll each queue.
            self._forget(None)
            self._keys_changed()
            self._waiters.wake_all()
            return
        process, kind, *queues = payload.split(" ") if payload.count(" ") > 1 else ("", "")
        if process == self._process:
            return
        for queue in queues:
            if kind == SENT:
                self._waiters.wake(queue, WOKEN)
            elif kind == WAITING:
                self._notifier.add_interest(queue)
            elif kind == CHANGED:
                self._forget(queue)
            elif kind == KEYS:
                self._keys_changed()
