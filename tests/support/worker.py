"""Worker processes: `skipmq work` on an app of tests/client/worker_apps.py."""

import signal
import subprocess
import threading
from typing import Self

from support.forks import Forked
from support.http import ROOT, SKIPMQ, environment

FOLDER = ROOT / "tests" / "client"


class WorkerProcess:
    """A `skipmq work` process."""

    def __init__(self, app: str, *options: str) -> None:
        self.process = Forked(
            [*SKIPMQ, "work", app, *options],
            cwd=FOLDER,
            env=environment({}),
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self, seconds: float = 120) -> int:
        """Return the exit code when the process has ended by itself."""
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
