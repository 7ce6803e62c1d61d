"""A worker process: a node and its server on an event loop, until a signal stops it.

A node with one worker has no other process; supervisor.py runs several workers.
"""

import asyncio
import gc
import os
import resource
import signal
import socket
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from skipmq.broker.node import Node, Runnable
from skipmq.config.settings import Settings
from skipmq.database.partitions import Database
from skipmq.protocol import errors
from skipmq.server.answer import Broker
from skipmq.server.http.door import Door
from skipmq.server.processes import certificate, systemd
from skipmq.server.processes.certificate import StagedFiles, Watch
from skipmq.server.processes.heartbeat import Heartbeat
from skipmq.server.processes.janitor import Janitors
from skipmq.server.request_trace import tracing
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Metrics, Published, Snapshot
from skipmq.telemetry.metrics_folder import Publisher, published

if TYPE_CHECKING:
    from skipmq.server.web import Mount


# Signals that stop a node; a second one skips SKIPMQ_STOP_DELAY.
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
# The supervisor's signals: reload the certificate, and stop.
RENEW, STOP = signal.SIGUSR1, signal.SIGUSR2
# Descriptors of a worker that are not client connections to the port of SQS within its limit: its
# own files, connections to the database, spare connections and those to the port of the probes.
OTHER_FILES = 256
_RETRY_SECONDS, _READY_SECONDS = 0.5, 0.05
# Requests create no reference cycles. A full collection takes over a tenth of a second with ten
# thousand receivers.
_GC_THRESHOLDS = (50_000, 20, 100)


@dataclass(frozen=True, slots=True)
class Work:
    """The settings and resources of a node's workers; each worker has its own socket.

    `folder` is private to the node and holds the certificate's `files` and the workers' metrics.
    """

    settings: Settings
    database_url: str
    sockets: list[socket.socket]
    probes: socket.socket | None
    folder: Path | None
    files: StagedFiles | None
    mount: "Mount | None"
    # Of the owner of a throw-away database: tests may control its node. Empty for every other.
    controls: str = ""

    @property
    def metrics_folder(self) -> Path | None:
        """Return the folder in which several workers publish metrics, None for a single worker."""
        return self.folder if len(self.sockets) > 1 else None


def connections(limit: int) -> int:
    """Return `limit`, or the number of client connections that RLIMIT_NOFILE allows if smaller."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit if files == resource.RLIM_INFINITY else min(limit, max(files - OTHER_FILES, 16))


def run(  # noqa: PLR0913 - with and without a supervisor.
    work: Work,
    ready: Callable[[], None],
    watch: Watch | None,
    *,
    number: int = 0,
    stops: Collection[signal.Signals] = STOP_SIGNALS,
    parent: int | None = None,
) -> None:
    """Serve until one of the signals in `stops` arrives, then drain and return.

    Calls `ready` when the node accepts requests. `watch` detects renewed certificates; `parent` is
    a descriptor that ends when the process that started this one has died.
    """
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_Worker(work, number).serve(ready, watch, stops, parent))


class _Worker:
    def __init__(self, work: Work, number: int) -> None:
        self._work, self._settings = work, work.settings
        self._listening = work.sockets[number]
        self._stop_requested, self._skip_delay = asyncio.Event(), asyncio.Event()
        self._is_first = number == 0
        self._metrics = Metrics(janitor=self._is_first)
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(
        self,
        ready: Callable[[], None],
        watch: Watch | None,
        stops: Collection[signal.Signals],
        parent: int | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for each in stops:
            loop.add_signal_handler(each, self._request_stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*stops, signal.SIGCHLD, signal.SIGALRM})
        if parent is not None:
            loop.add_reader(parent, self._stop_without_parent, parent)
        settings, work = self._settings, self._work
        traces = tracing(settings, str(os.getpid()))
        self._node = node = Node(settings, work.database_url, self._metrics, traces)
        own = Database(work.database_url, size=1, application_name="skipmq janitor")
        try:
            with suppress(errors.ServiceUnavailable):
                await node.open()
            self._broker = broker = self._make_broker(node)
            node.start(*self._background_tasks(own))
            limit = connections(settings.max_connections)
            self._door = Door(broker, self._collect, limit, work.mount)
            await self._listen()
            loop.add_signal_handler(RENEW, lambda: self._create_task(self._renew()))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {RENEW})
            # Exclude the long-lived objects created so far from later collections.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GC_THRESHOLDS)
            self._create_task(self._announce(ready))
            # The supervisor of several workers does it for them.
            if len(work.sockets) == 1:
                self._create_task(self._ping())
            if watch is not None:
                self._create_task(self._watch(watch))
            await self._stop()
        finally:
            # Further signals must not interrupt the shutdown.
            signal.pthread_sigmask(signal.SIG_BLOCK, {*stops, RENEW})
            # A flush is no request: it must not be cancelled with them.
            await node.settle()
            await cancel_others()
            await node.close()
            own.close()

    def _make_broker(self, node: Node) -> Broker:
        if not self._work.controls:
            return Broker(node)
        from skipmq.server.ephemeral.controls import ControlledBroker  # noqa: PLC0415 - only for tests.

        return ControlledBroker(node, self._work.controls)

    def _background_tasks(self, database: Database) -> list[Runnable]:
        tasks: list[Runnable] = [
            Heartbeat(
                self._node,
                self._snapshot,
                lambda: self._door.connections,
                port=self._settings.port,
                is_first=self._is_first,
            )
        ]
        if self._is_first:
            # The console counts nodes by sessions named "skipmq janitor": one for each node.
            tasks.append(Janitors(database, self._settings, self._metrics))
        if (folder := self._work.metrics_folder) is not None:
            tasks.append(Publisher(folder, self._snapshot))
        return tasks

    async def _listen(self) -> None:
        files = self._work.files
        context = certificate.context(files) if files else None
        if files and self._is_first:
            self._metrics.show("certificate ends", certificate.ends(files))
        await self._door.listen(self._listening, context)
        if self._work.probes is not None:
            await self._door.listen_for_probes(self._work.probes)

    async def _renew(self) -> None:
        files = self._work.files
        assert files is not None
        try:
            self._door.renew(certificate.context(files))
        except OSError as error:
            log.exception("the certificate cannot be renewed", error=str(error))
            return
        if self._is_first:
            self._metrics.show("certificate ends", certificate.ends(files))

    async def _watch(self, watch: Watch) -> None:
        while True:
            await asyncio.sleep(certificate.INTERVAL)
            if watch.poll():
                await self._renew()
                systemd.reloaded()

    async def _ping(self) -> None:
        while True:
            systemd.ping()
            await asyncio.sleep(1)

    async def _announce(self, ready: Callable[[], None]) -> None:
        """Call `ready` when the node accepts requests."""
        node = self._node
        is_ready, state = await node.readiness()
        if not is_ready:
            log.warning("waiting until the database accepts writes", database=state)
        while not is_ready:
            await asyncio.sleep(_READY_SECONDS if node.is_open else _RETRY_SECONDS)
            if not node.is_open:
                with suppress(errors.ServiceUnavailable):
                    await node.open()
            is_ready, _ = await node.readiness()
        ready()

    async def _stop(self) -> None:
        await self._stop_requested.wait()
        self._node.announce_stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_delay):
                await self._skip_delay.wait()
        self._node.drain()
        self._door.drain()
        await self._door.close(self._settings.stop_timeout)

    def _collect(self) -> list[Published]:
        folder = self._work.metrics_folder
        return [Published(self._snapshot())] if folder is None else published(folder)

    def _snapshot(self) -> Snapshot:
        self._broker.show()
        return self._metrics.snapshot()

    def _create_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _request_stop(self) -> None:
        (self._skip_delay if self._stop_requested.is_set() else self._stop_requested).set()

    def _stop_without_parent(self, parent: int) -> None:
        if os.read(parent, 4096):
            return
        asyncio.get_running_loop().remove_reader(parent)
        self._stop_requested.set()
        self._skip_delay.set()


async def cancel_others() -> None:
    """Cancel all other tasks, so that requests that exceed SKIPMQ_STOP_TIMEOUT are logged."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
