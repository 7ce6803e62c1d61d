"""The parts of a cluster as processes, and their supervisor, which replaces systemd."""

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from local_cluster.errors import ClusterError

RESTART_SECONDS = 1.0
_POLL_SECONDS = 0.03


@dataclass(slots=True, kw_only=True)
class Part:
    """A program with its log; `hook` runs after it exits and before its restart."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    log: Path
    hook: list[str] = field(default_factory=list)
    is_supervised: bool = True
    process: subprocess.Popen[bytes] | None = None
    hook_process: subprocess.Popen[bytes] | None = None
    died: float | None = None

    @property
    def pid(self) -> int | None:
        """Return the id of its process while it runs."""
        process = self.process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start it unless it runs, after its hook has ended."""
        if self.pid is None:
            if self.hook_process is not None:
                self.hook_process.wait()
            self.process = self._spawn(self.command)
        self.died = None

    def run_hook(self) -> None:
        """Run the hook."""
        if self.hook:
            self.hook_process = self._spawn(self.hook)

    def signal(self, number: int) -> None:
        """Send a signal to its process group, whether or not the first process still runs."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def last_lines(self, count: int = 5) -> str:
        """Return the end of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])
        except OSError:
            return ""

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                command,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
            )


class Supervisor:
    """A thread that starts parts, and restarts those that exit.

    All are its children and get a signal when it ends (PR_SET_PDEATHSIG), so that they do not
    outlive a killed program: no other thread may start them.
    """

    def __init__(self, parts: Iterable[Part], *, hook: bool = True) -> None:
        self.parts = {part.name: part for part in parts}
        self.hook = hook
        self._orders: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]]
        self._orders = queue.SimpleQueue()
        self._ending = threading.Event()
        self._is_watching = True
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def start(self, *names: str) -> None:
        """Start those parts that do not run."""
        done = threading.Event()

        def order() -> None:
            for name in names:
                self.part(name).start()

        for name in names:
            self.part(name)
        self._orders.put((order, done))
        if not done.wait(30):
            raise ClusterError(f"could not start {', '.join(names)}")

    def part(self, name: str) -> Part:
        """Return the part of that name."""
        try:
            return self.parts[name]
        except KeyError:
            raise ClusterError(
                f"there is no part {name!r}; there are {', '.join(self.parts)}"
            ) from None

    def give_up(self) -> None:
        """Stop restarting parts."""
        self._is_watching = False

    def end(self) -> None:
        """End the thread; the parts must have been stopped before."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                order, done = self._orders.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                pass
            else:
                order()
                done.set()
            if self._is_watching:
                for part in self.parts.values():
                    self._restart_if_exited(part)

    def _restart_if_exited(self, part: Part) -> None:
        if not part.is_supervised or part.process is None or part.pid is not None:
            return
        if part.died is None:
            part.died = time.monotonic()
            if self.hook:
                part.run_hook()
        is_hook_running = part.hook_process is not None and part.hook_process.poll() is None
        if not is_hook_running and time.monotonic() - part.died >= RESTART_SECONDS:
            part.start()


def stop(parts: Iterable[Part], number: int = signal.SIGTERM, seconds: float = 10) -> None:
    """Send a signal, then kill the processes that have not ended within these seconds."""
    running = [part for part in parts if part.process is not None]
    for part in running:
        part.signal(signal.SIGCONT)
        part.signal(number)
    deadline = time.monotonic() + seconds
    for part in running:
        assert part.process is not None
        with suppress(subprocess.TimeoutExpired):
            part.process.wait(max(deadline - time.monotonic(), 0))
        part.signal(signal.SIGKILL)
        part.process.wait()
        if part.hook_process is not None:
            part.hook_process.kill()
            part.hook_process.wait()


def in_folder(folder: Path) -> list[int]:
    """Return the ids of the processes whose working directory this is, as PostgreSQL's is."""
    return _processes(lambda process: (process / "cwd").readlink() == folder)


def with_variable(name: str, value: str) -> list[int]:
    """Return the ids of the processes that were started with this variable, or inherited it."""
    wanted = f"{name}={value}".encode()
    return _processes(lambda process: wanted in (process / "environ").read_bytes().split(b"\0"))


def kill(find: Callable[[], list[int]], seconds: float = 60) -> None:
    """Kill processes, frozen or not, until none is left: a busy disk may delay one."""
    deadline = time.monotonic() + seconds
    while running := find():
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise ClusterError(f"these processes do not end: {running}")
        time.sleep(0.02)


def _processes(test: Callable[[Path], bool]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if test(entry):
                    found.append(int(entry.name))
    return found
