"""Processes of Python that need not import their modules.

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
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, NamedTuple, NoReturn


class Interpreter(NamedTuple):
    """A Python, and the modules that it imports before it is forked."""

    python: str
    modules: tuple[str, ...]


# What a node and a worker import takes most of the processor's time of their starts.
SKIPMQ = Interpreter(
    sys.executable,
    (
        *("skipmq.cli.serve", "skipmq.cli.declared", "skipmq.server.processes.serve"),
        *("skipmq.console.site", "skipmq.console.pages", "skipmq.cli.work", "flask", "structlog"),
        "psycopg.types.json",
        # And what most commands do.
        *("skipmq.cli.queue.queues", "skipmq.cli.queue.messages", "skipmq.cli.queue.send"),
        *("skipmq.cli.failures", "skipmq.cli.remote"),
    ),
)
# What commands on the history import before they start Spark, if they do.
ANALYTICS = Interpreter(
    sys.executable,
    (
        *(f"skipmq.cli.analytics.{name}" for name in ("advise", "engine", "exports", "reports")),
        *("skipmq.analytics.delta", "skipmq.analytics.replay", "skipmq.analytics.queue_settings"),
        *("skipmq.analytics.reports.engines.duckdb", "skipmq.analytics.reports.report"),
        *("pyspark.sql.worker.plan_data_source_read", "pyspark_skipmq"),
    ),
)
# Of a project what can be imported without its settings, without us and with us.
DJANGO_ALONE = Interpreter(
    sys.executable,
    (
        *(f"django.core.management.commands.{name}" for name in ("check", "flush", "migrate")),
        *(f"django.core.management.commands.{name}" for name in ("makemigrations", "shell")),
        "django.core.management.commands.test",
        "django.contrib.staticfiles.management.commands.runserver",
        *("django.contrib.admin", "django.db.backends.postgresql.base", "django.views.defaults"),
        *("django.template.backends.django", "django.contrib.auth.hashers"),
        *("django.contrib.sessions.middleware", "django.contrib.messages.middleware"),
    ),
)
DJANGO = Interpreter(
    sys.executable,
    (
        *DJANGO_ALONE.modules,
        *("skipmq.django.management.commands.skipmq_work", "skipmq.django.peeking"),
        *("skipmq.django.installation", "skipmq.database.schema", "skipmq.actions.sqs.attributes"),
    ),
)
# What programs of the documentation import.
CLIENTS = Interpreter(
    sys.executable,
    (
        *("boto3", "encodings.idna", "skipmq", "skipmq.client", "psycopg.types.json", "asyncio"),
        *("sqlalchemy.orm", "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.ext.asyncio"),
    ),
)
_AWS = Path(__file__).parents[2] / ".cache" / "clients" / "awscli" / "bin" / "aws"
AWS = Interpreter(
    str(_AWS.with_name("python")), ("awscli.clidriver", "awscli.handlers", "encodings.idna")
)
# Of prctl(2).
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
_MOST_BYTES = 1 << 18
# A command as a shell finds it. What is started in the background is of the shell's session.
_COMMAND = """\
#!{python} -IS
import os, socket, sys
first = "".join(sys.argv[1:2])
if {is_alone}:
    os.execv({installed!r}, [{installed!r}, *sys.argv[1:]])
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect({address!r})
variables = ["=".join(each) for each in os.environ.items()]
words = [{name!r}, os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:]]
request = "\\0".join([*words, *variables])
socket.send_fds(asked, [os.fsencode(request)], [0, 1, 2])
sys.exit(asked.recv(1)[0])
"""


# What Spark starts for each query on a source of streams in Python. Other workers it forks itself.
STREAMS = "pyspark.sql.streaming.python_streaming_source_runner"
# The words of each command before its own, and when it is not forked.
_COMMANDS = {
    "skipmq": (
        [sys.executable, "-m", "skipmq"],
        'first == "serve" or first == "work" and "--once" not in sys.argv',
    ),
    "python": (
        [sys.executable],
        f'first != "-c" and not first.endswith(".py") and sys.argv[2:] != [{STREAMS!r}]',
    ),
    "aws": ([str(_AWS)], "False"),
}


class Forked(subprocess.Popen[Any]):
    """A process; of `python -m skipmq` and `python manage.py` a fork in a session of its own.

    Not while coverage is measured, which begins with an interpreter, nor with modules in other
    places.
    """

    # What is forked for other programs, and for all.
    of_others: Interpreter | None = None
    of_all: Interpreter | None = None

    def _execute_child(
        self,
        args: list[str],
        executable: None,
        preexec_fn: None,
        close_fds: bool,
        pass_fds: tuple[int, ...],
        cwd: str | None,
        env: Mapping[str, str] | None,
        *others: Any,
    ) -> None:
        interpreter = self.of_all or _interpreter(args) or self.of_others
        if not interpreter or "coverage" in sys.modules or "PYTHONPATH" in (env or ()):
            given = (args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)
            super()._execute_child(*given)  # type: ignore[misc]
            return
        stdin, _, _, stdout, _, stderr = pipes = others[3:9]
        streams = [own if own >= 0 else its for its, own in enumerate((stdin, stdout, stderr))]
        variables = dict(os.environ if env is None else env)  # noqa: TID251
        words = args[args[0] == sys.executable :]
        request = json.dumps([words, str(cwd or Path.cwd()), variables]).encode()
        parent = _parent(interpreter)
        with _adopting():
            socket.send_fds(parent, [request], streams)
            self.pid = int(parent.recv(_MOST_BYTES))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _interpreter(args: list[str]) -> Interpreter | None:
    """Return what is forked for a command, if anything is."""
    if args[:3] == [sys.executable, "-m", "skipmq"]:
        return ANALYTICS if args[3:4] == ["analytics"] else SKIPMQ
    if args[0] == str(_AWS):
        return AWS
    return DJANGO if args[:2] == [sys.executable, "manage.py"] else None


def run(
    command: list[str], variables: Mapping[str, str], given: str = "", seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that is forked; return its exit code, and what it printed."""
    pipe = subprocess.PIPE
    with Forked(command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        printed, said = process.communicate(given, timeout=seconds)
    return subprocess.CompletedProcess(command, process.returncode, printed, said)


class OnHistory(Forked):
    """A program that reads the history, or a lake."""

    of_others = ANALYTICS


class Streaming(OnHistory):
    """A worker of Spark, without the archives of PySpark, which are not there."""

    def __init__(self, args: list[str], *, env: Mapping[str, str], **others: Any) -> None:
        super().__init__(args, env={k: v for k, v in env.items() if k != "PYTHONPATH"}, **others)


class Program(Forked):
    """A program of the documentation."""

    of_others = CLIENTS


@contextmanager
def commands(folder: Path, program: type[Forked] = Program) -> Iterator[Path]:
    """Make a folder whose `skipmq`, `python` and `aws` run in forks, which need not import."""
    ours = Path(sys.executable).parent
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        # At an address that is not in a folder, whose name may be too long for it.
        listening.bind("")
        listening.listen()
        address = listening.getsockname()
        for name, ((*_, word), is_alone) in _COMMANDS.items():
            installed = word if word == str(_AWS) else ours / name
            command = folder / name
            command.write_text(
                _COMMAND.format(
                    python=sys.executable,
                    installed=str(installed),
                    address=address,
                    name=name,
                    is_alone=is_alone,
                )
            )
            command.chmod(0o755)
        serving = threading.Thread(target=_serve, args=(listening, program))
        serving.start()
        try:
            yield folder
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


def _serve(listening: socket.socket, program: type[Forked]) -> None:
    """Run each command that is asked for."""
    while True:
        try:
            asked, _ = listening.accept()
        except OSError:
            return
        request, streams, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        name, folder, number, *rest = os.fsdecode(request).split("\0")
        words, variables = rest[: int(number)], rest[int(number) :]
        process = program(
            [*_COMMANDS[name][0], *words],
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
def _parent(interpreter: Interpreter) -> socket.socket:
    """Start the process that is forked; it ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [interpreter.python, __file__, str(its.fileno()), *interpreter.modules],
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


def _fork(asked: socket.socket) -> list[str]:
    """Fork for each request; return the words of the command in the fork."""
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
                words, folder, variables = json.loads(request)
                _become(streams, folder, variables)
                return list(words)
            os.write(writing, str(pid).encode())
            os._exit(0)
        # Then its parent is whoever asked.
        os.waitpid(between, 0)
        asked.send(os.read(reading, 64))
        for used in (reading, writing, *streams):
            os.close(used)


def _become(streams: list[int], folder: str, variables: dict[str, str]) -> None:
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()  # noqa: TID251 - a process's own.
    os.environ.update(variables)  # noqa: TID251
    tempfile.tempdir = None
    # What is asked of the streams and of the environment when it is made.
    if output := sys.modules.get("skipmq.cli.output"):
        for console, stderr in ((output.out, False), (output.err, True)):
            console.__init__(stderr=stderr)
    if release := sys.modules.get("skipmq.release"):
        release.STARTED = monotonic()  # type: ignore[attr-defined]


def _interpret(words: list[str]) -> None:
    """Do what `python` does with its arguments."""
    first, *others = words
    if first == "-m":
        sys.argv = others
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *others[1:]]
        sys.path.insert(0, "")
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(others[0], module.__dict__)  # noqa: S102 - as an interpreter does.
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(first).resolve().parent))
        runpy.run_path(first, run_name="__main__")


def _exit(codes: list[int]) -> None:
    """End a fork, whose handlers of `atexit` have run and whose threads have ended.

    To take its objects apart, as interpreters do, it would copy most pages of its parent. One
    that is interrupted, or that cannot write, ends as interpreters do.
    """
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for code in codes:
            os._exit(code)


def main() -> NoReturn:
    # The first handler is the last to run.
    codes: list[int] = []
    atexit.register(_exit, codes)
    # The folder of this file, where modules have names of libraries.
    del sys.path[0]
    number, *modules = sys.argv[1:]
    before = dict(os.environ)  # noqa: TID251
    for name in modules:
        importlib.import_module(name)
    # As modules set variables when they are imported.
    made = {k: v for k, v in os.environ.items() if before.get(k) != v}  # noqa: TID251
    gc.collect()
    gc.freeze()
    words = _fork(socket.socket(fileno=int(number)))
    os.environ.update(made)  # noqa: TID251
    try:
        _interpret(words)
        sys.exit(0)
    except SystemExit as exit_:
        if not exit_.code or isinstance(exit_.code, int):
            codes.append((exit_.code or 0) & 255)
        raise


if __name__ == "__main__":
    main()
