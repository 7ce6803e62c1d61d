"""A worker process: an event loop, a node, and the signals by which it hears that it shall stop."""

import asyncio
import gc
import multiprocessing
import os
import resource
import signal
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from granian.server.mp import WorkerProcess

from skipmq import errors, logs
from skipmq.metrics import Metrics, Publisher
from skipmq.node import Node
from skipmq.server.answer import Broker
from skipmq.server.request_trace import tracing
from skipmq.settings import Settings

if TYPE_CHECKING:
    from skipmq.server.web import Mount

# What the main process sends: refuse to be ready but serve on; end all waiting, SIGTERM follows.
LEAVE, DRAIN = signal.SIGUSR1, signal.SIGUSR2
_RETRY_SECONDS = 0.5
# Requests leave no cycles behind: few objects are ever garbage that only the collector finds.
_COLLECTED_AFTER = 50_000


def notify(workers: Sequence[WorkerProcess], notice: signal.Signals) -> None:
    """Send a notice to all worker processes."""
    for each in workers:
        with suppress(ProcessLookupError):
            os.kill(each.inner.pid, notice)


def load(
    settings: Settings, database_url: str, metrics_folder: Path, mount: "Mount | None"
) -> "_Worker":
    """Return the application of this process, which Granian has just started."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logs.configure(settings)
    return _Worker(settings, database_url, metrics_folder, mount)


class _Worker:
    """What Granian calls: when the loop is there, for each request, when all are answered."""

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        metrics_folder: Path,
        mount: "Mount | None",
    ) -> None:
        self._settings = settings
        self._database_url = database_url
        self._metrics_folder = metrics_folder
        self._mount = mount
        self._node: Node | None = None
        self._door: Any = None
        self._opening: asyncio.Task[None] | None = None

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_signal_handler(LEAVE, self._leave)
        loop.add_signal_handler(DRAIN, self._drain)
        parent = multiprocessing.parent_process()
        if parent is not None:
            loop.add_reader(parent.sentinel, self._end_without_parent, loop, parent.sentinel)
        loop.run_until_complete(self._start())

    def __rsgi__(self, scope: Any, proto: Any) -> Awaitable[None]:
        answer: Awaitable[None] = self._door(scope, proto)
        return answer

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._node is not None:
            loop.run_until_complete(self._node.close())
        self._door.close()

    async def _start(self) -> None:
        # Not before: the main process does without Flask.
        from skipmq.exposition import Exposition  # noqa: PLC0415
        from skipmq.server.rsgi import Door  # noqa: PLC0415

        metrics = Metrics()
        traces = tracing(self._settings, str(os.getpid()))
        node = Node(self._settings, self._database_url, metrics, traces)
        try:
            await node.open()
        except errors.ServiceUnavailable:
            # Meanwhile the worker says what it waits for.
            self._opening = asyncio.get_running_loop().create_task(_open(node))
        broker = Broker(node)
        node.start(Publisher(metrics, self._metrics_folder, broker.show))
        # What is there now stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECTED_AFTER)
        self._node = node
        shown = None if self._settings.metrics_port else Exposition(self._metrics_folder)
        self._door = Door(broker, shown, self._mount)

    def _leave(self) -> None:
        if self._node is not None:
            self._node.leave()

    def _drain(self) -> None:
        self._leave()
        if self._node is not None:
            self._node.drain()
            self._door.drain()

    def _end_without_parent(self, loop: asyncio.AbstractEventLoop, sentinel: int) -> None:
        loop.remove_reader(sentinel)
        self._drain()
        os.kill(os.getpid(), signal.SIGTERM)


async def _open(node: Node) -> None:
    """Open a node as soon as its database can be written to."""
    while not node.is_open:
        await asyncio.sleep(_RETRY_SECONDS)
        with suppress(errors.ServiceUnavailable):
            await node.open()
