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
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from jinja2 import FileSystemBytecodeCache

# What a node and a worker import takes most of the processor's time of their starts.
MODULES = (
    *("skipmq.cli.serve", "skipmq.cli.declared", "skipmq.server.processes.serve"),
    *("skipmq.console.site", "skipmq.console.pages", "skipmq.cli.work", "flask", "structlog"),
    "psycopg.types.json",
    # And what most commands do.
    *("skipmq.cli.queue.queues", "skipmq.cli.queue.messages", "skipmq.cli.queue.send"),
    *("skipmq.cli.failures", "skipmq.cli.remote"),
)
# Of prctl(2).
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
_MOST_BYTES = 1 << 18
# `skipmq` as a shell finds it. What is started in the background is of the shell's session.
_COMMAND = """\
#!{python} -IS
import os, socket, sys
if sys.argv[1:2] in (["serve"], ["work"]):
    os.execv({installed!r}, ["skipmq", *sys.argv[1:]])
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect({address!r})
variables = ["=".join(each) for each in os.environ.items()]
request = "\\0".join([os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:], *variables])
socket.send_fds(asked, [os.fsencode(request)], [0, 1, 2])
sys.exit(asked.recv(1)[0])
"""


class Forked(subprocess.Popen[Any]):
    """A process; of `python -m skipmq` a fork in a session of its own.

    Not while coverage is measured, which begins with an interpreter, nor with modules in other
    places.
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
        is_ours = args[:3] == [sys.executable, "-m", "skipmq"] and "coverage" not in sys.modules
        if not is_ours or (env and "PYTHONPATH" in env):
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


def run(
    command: list[str], variables: Mapping[str, str], given: str = "", seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that is forked; return its exit code, and what it printed."""
    pipe = subprocess.PIPE
    with Forked(command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        printed, said = process.communicate(given, timeout=seconds)
    return subprocess.CompletedProcess(command, process.returncode, printed, said)


@contextmanager
def commands(folder: Path) -> Iterator[Path]:
    """Make a folder whose `skipmq` runs in forks, which a shell need not import for."""
    folder.mkdir()
    command, installed = folder / "skipmq", Path(sys.executable).with_name("skipmq")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        # At an address that is not in a folder, whose name may be too long for it.
        listening.bind("")
        listening.listen()
        address = listening.getsockname()
        command.write_text(
            _COMMAND.format(python=sys.executable, installed=str(installed), address=address)
        )
        command.chmod(0o755)
        serving = threading.Thread(target=_serve, args=(listening,))
        serving.start()
        try:
            yield folder
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


def _serve(listening: socket.socket) -> None:
    """Run each command that is asked for."""
    while True:
        try:
            asked, _ = listening.accept()
        except OSError:
            return
        request, streams, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        folder, number, *rest = os.fsdecode(request).split("\0")
        words, variables = rest[: int(number)], rest[int(number) :]
        process = Forked(
            [sys.executable, "-m", "skipmq", *words],
            cwd=folder,
            env=dict(each.split("=", 1) for each in variables),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
        )
        for stream in streams:
            os.close(stream)
        threading.Thread(target=_answer, args=(asked, process), daemon=True).start()


def _answer(asked: socket.socket, process: Forked) -> None:
    """Answer with the exit code of a command, as a shell shows it."""
    code = process.wait()
    # Whoever asked may have been killed.
    with asked, suppress(OSError):
        asked.send(bytes([code if code >= 0 else 128 - code]))


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


def _fork(asked: socket.socket, compiled: str) -> None:
    """Fork for each request; return in the fork. At the end remove what forks have compiled."""
    while True:
        request, streams, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not request:
            shutil.rmtree(compiled, ignore_errors=True)
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
    # What is asked of the streams and of the environment when it is made.
    output: Any = sys.modules["skipmq.cli.output"]
    output.out.__init__()
    output.err.__init__(stderr=True)
    release = sys.modules["skipmq.release"]
    release.STARTED = monotonic()  # type: ignore[attr-defined]


def main() -> NoReturn:
    # The folder of this file, where modules have names of libraries.
    del sys.path[0]
    for name in MODULES:
        importlib.import_module(name)
    flask: Any = sys.modules["flask"]
    compiled = tempfile.mkdtemp(prefix="skipmq-tests-pages-")
    # Pages take longer to compile than to be shown: of several nodes the first one does it.
    flask.Flask.jinja_options = {"bytecode_cache": FileSystemBytecodeCache(compiled)}
    gc.collect()
    gc.freeze()
    _fork(socket.socket(fileno=int(sys.argv[1])), compiled)
    runpy.run_module("skipmq", run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main()
