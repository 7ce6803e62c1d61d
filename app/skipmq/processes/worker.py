"""A worker: a node behind its door on an event loop, until a signal stops it.

A node of one worker is this process and no other; of several, see supervisor.py.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import uvloop

from skipmq import errors
from skipmq.database import Database
from skipmq.node import Node, Runnable
from skipmq.processes import certificate, systemd
from skipmq.processes.certificate import StagedFiles, Watch
from skipmq.processes.janitor import Janitor
from skipmq.server.answer import Broker
from skipmq.server.door import Door
from skipmq.server.request_trace import tracing
from skipmq.settings import Settings
from skipmq.store import Upkeep
from skipmq.store.task_listener import TaskListener
from skipmq.telemetry.metrics import Metrics, Published, Snapshot
from skipmq.telemetry.metrics_folder import Publisher, published

if TYPE_CHECKING:
    from skipmq.server.web import Mount

log = structlog.get_logger()

# What stops a node: the second one ends its delay.
STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
# What a supervisor sends: that there is another certificate, and that the worker shall stop.
RENEW, STOP = signal.SIGUSR1, signal.SIGUSR2
# Files that a worker opens for other things than connections of clients.
OTHER_FILES = 256
_RETRY_SECONDS, _READY_SECONDS = 0.5, 0.05
# Requests leave no cycles behind: few objects are ever garbage that only the collector finds. All
# are looked at rarely: with ten thousand receivers that takes a tenth of a second, and more.
_COLLECTED_AFTER = (50_000, 20, 100)


@dataclass(frozen=True, slots=True)
class Work:
    """What a node serves, and where; its workers have a socket each.

    `folder` is the node's own: for the certificate's `files`, and for metrics of several workers.
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
        """Return where several workers publish their metrics; None where there is one."""
        return self.folder if len(self.sockets) > 1 else None


def connections(wanted: int) -> int:
    """Return how many connections of clients a worker can hold, of those wanted."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else min(wanted, max(files - OTHER_FILES, 64))


def run(  # noqa: PLR0913 - Alone, and under a supervisor.
    work: Work,
    ready: Callable[[], None],
    watch: Watch | None,
    *,
    number: int = 0,
    stops: Collection[signal.Signals] = STOP_SIGNALS,
    parent: int | None = None,
) -> None:
    """Serve until one of the signals `stops`, then let requests end and return.

    Calls `ready` when the node takes requests. `watch` finds other certificates, `parent` is a
    descriptor that ends when the process that started this one has died.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_Worker(work, number).serve(ready, watch, stops, parent))


class _Worker:
    def __init__(self, work: Work, number: int) -> None:
        self._work, self._settings = work, work.settings
        self._listening = work.sockets[number]
        self._leaving, self._hurried = asyncio.Event(), asyncio.Event()
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
            loop.add_signal_handler(each, self._hear)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*stops, signal.SIGCHLD, signal.SIGALRM})
        if parent is not None:
            loop.add_reader(parent, self._end_without_parent, parent)
        settings, work = self._settings, self._work
        traces = tracing(settings, str(os.getpid()))
        self._node = node = Node(settings, work.database_url, self._metrics, traces)
        own = Database(work.database_url, size=1, application_name="skipmq janitor")
        try:
            with suppress(errors.ServiceUnavailable):
                await node.open()
            self._broker = broker = self._broker_of(node)
            node.start(*self._parts(own))
            most = connections(settings.max_connections)
            self._door = Door(broker, self._collect, most, work.mount)
            await self._listen()
            loop.add_signal_handler(RENEW, lambda: self._begin(self._renew()))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {RENEW})
            # What is there now stays: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_COLLECTED_AFTER)
            self._begin(self._announce(ready))
            if parent is None:
                self._begin(self._ping())
            if watch is not None:
                self._begin(self._watch(watch))
            await self._stop()
        finally:
            # What comes from now on changes nothing: the rest of the stop is not to be cut short.
            signal.pthread_sigmask(signal.SIG_BLOCK, {*stops, RENEW})
            await cancel_others()
            await node.close()
            own.close()

    def _broker_of(self, node: Node) -> Broker:
        if not self._work.controls:
            return Broker(node)
        from skipmq.server.controls import ControlledBroker  # noqa: PLC0415 - only for tests.

        return ControlledBroker(node, self._work.controls)

    def _parts(self, database: Database) -> list[Runnable]:
        """Return what runs beside the node: of a node's workers the first has the janitor."""
        parts: list[Runnable] = []
        if self._is_first:
            janitor = Janitor(Upkeep(database), self._settings, self._metrics)
            # Each node has one session named as the janitor's, by which consoles count nodes.
            listen = partial(database.session, "skipmq task listener")
            parts += [janitor, TaskListener(listen, janitor.wake)]
        if (folder := self._work.metrics_folder) is not None:
            parts.append(Publisher(folder, self._snapshot))
        return parts

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
            await self._door.renew(self._listening, certificate.context(files))
        except OSError as error:
            log.exception("the certificate cannot be renewed", error=str(error))
            return
        if self._is_first:
            self._metrics.show("certificate ends", certificate.ends(files))

    async def _watch(self, watch: Watch) -> None:
        while True:
            await asyncio.sleep(certificate.INTERVAL)
            if watch.look():
                await self._renew()
                systemd.reloaded()

    async def _ping(self) -> None:
        while True:
            systemd.ping()
            await asyncio.sleep(1)

    async def _announce(self, ready: Callable[[], None]) -> None:
        """Call `ready` when the node takes requests."""
        node = self._node
        is_ready, state = await node.readiness()
        if not is_ready:
            log.warning("the node waits until it can write to its database", database=state)
        while not is_ready:
            await asyncio.sleep(_READY_SECONDS if node.is_open else _RETRY_SECONDS)
            if not node.is_open:
                with suppress(errors.ServiceUnavailable):
                    await node.open()
            is_ready, _ = await node.readiness()
        ready()

    async def _stop(self) -> None:
        """Wait for the signal that stops the node, and let requests end."""
        await self._leaving.wait()
        self._node.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_delay):
                await self._hurried.wait()
        self._node.drain()
        self._door.drain()
        await self._door.close(self._settings.stop_timeout)

    def _collect(self) -> list[Published]:
        folder = self._work.metrics_folder
        return [Published(self._snapshot())] if folder is None else published(folder)

    def _snapshot(self) -> Snapshot:
        self._broker.show()
        return self._metrics.snapshot()

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hear(self) -> None:
        (self._hurried if self._leaving.is_set() else self._leaving).set()

    def _end_without_parent(self, parent: int) -> None:
        if os.read(parent, 4096):
            return
        asyncio.get_running_loop().remove_reader(parent)
        self._leaving.set()
        self._hurried.set()


async def cancel_others() -> None:
    """Cancel what still runs, so that requests which outlived the stop are on the record."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
