"""Processes of `python -m skipmq` that need not import their modules.

The first one of a run of tests starts another process, which imports the modules and is forked for
each. All else is its own: what the modules hold, the environment, the session, the streams.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

# What a node and a worker import takes most of the processor's time of their starts.
MODULES = (
    *("skipmq.cli.serve", "skipmq.cli.declared", "skipmq.server.processes.serve"),
    *("skipmq.console", "skipmq.cli.work", "flask", "structlog", "psycopg.types.json"),
)
# Of prctl(2).
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
_MOST_BYTES = 1 << 18


class Forked(subprocess.Popen[str]):
    """A process; of `python -m skipmq` a fork in a session of its own.

    Not while coverage is measured, which begins with an interpreter.
    """

    def _execute_child(
        self,
        args: list[str],
        executable: None,
        preexec_fn: None,
        close_fds: bool,
        pass_fds: tuple[int, ...],
        cwd: str | None,
        env: Mapping[str, str],
        *others: Any,
    ) -> None:
        if args[:3] != [sys.executable, "-m", "skipmq"] or "coverage" in sys.modules:
            given = (args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)
            super()._execute_child(*given)  # type: ignore[misc]
            return
        stdin, _, _, stdout, _, stderr = pipes = others[3:9]
        streams = [own if own >= 0 else its for its, own in enumerate((stdin, stdout, stderr))]
        request = json.dumps([args[3:], str(cwd or Path.cwd()), dict(env)]).encode()
        with _adopting():
            socket.send_fds(_parent(), [request], streams)
            self.pid = int(_parent().recv(_MOST_BYTES))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


@cache
def _parent() -> socket.socket:
    """Start the process that is forked; it ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, __file__, str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


@contextmanager
def _adopting() -> Iterator[None]:
    """Make descendants whose parents end children of this process."""
    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(_SET_SUBREAPER, before.value, 0, 0, 0)


def _fork(asked: socket.socket) -> None:
    """Fork for each request; return in the fork."""
    while True:
        request, streams, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not request:
            os._exit(0)
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            if not (pid := os.fork()):
                os.close(reading)
                os.close(writing)
                asked.close()
                _become(streams, *json.loads(request))
                return
            os.write(writing, str(pid).encode())
            os._exit(0)
        # Then its parent is whoever asked.
        os.waitpid(between, 0)
        asked.send(os.read(reading, 64))
        for used in (reading, writing, *streams):
            os.close(used)


def _become(streams: list[int], words: list[str], folder: str, variables: dict[str, str]) -> None:
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()  # noqa: TID251 - a process's own.
    os.environ.update(variables)  # noqa: TID251
    sys.argv = ["skipmq", *words]
    sys.path.insert(0, folder)
    release = sys.modules["skipmq.release"]
    release.STARTED = monotonic()  # type: ignore[attr-defined]


def main() -> NoReturn:
    # The folder of this file, where modules have names of libraries.
    del sys.path[0]
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    _fork(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("skipmq", run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main()
