"""A command on a terminal of its own, and what is on its screen."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping
from typing import Any, Self

from support.forks import Forked

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HOME = "\x1b[H"
ALTERNATE, ORDINARY = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """A command on a pseudo-terminal; who leaves it kills the command if it still runs.

    With `sends_signals` keys do, as on one's own terminal, which hangs up when the command exits.
    """

    def __init__(
        self,
        command: list[str],
        variables: Mapping[str, str],
        size: tuple[int, int],
        *,
        sends_signals: bool = False,
    ) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(*size)
        self.before = self.modes()
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        sizes = {"COLUMNS", "LINES"}
        # A fork cannot take the terminal, for its keys to send signals.
        start = subprocess.Popen[bytes] if sends_signals else Forked
        self.process = start(
            command,
            env={k: v for k, v in variables.items() if k not in sizes} | {"TERM": "xterm"},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=self._take if sends_signals else None,
        )

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    @staticmethod
    def _take() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def modes(self) -> list[Any]:
        """Return how the terminal is set."""
        return termios.tcgetattr(self._slave)

    @property
    def is_by_key(self) -> bool:
        """Tell whether it gives single keys, and shows none."""
        return not self.modes()[3] & (termios.ICANON | termios.ECHO)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def written(self) -> str:
        return self._written.decode(errors="replace")

    @property
    def screen(self) -> str:
        """Return what was drawn last, whole."""
        # The frame after the last one may still be on its way.
        *frames, last = self.written.split(_HOME)
        frame = last if ORDINARY in last or len(frames) < 2 else frames[-1]
        return _CONTROL.sub("", frame).replace("\r", "")

    def _read(self) -> None:
        # The end of what is written is known only by the closing of this end.
        try:
            while data := os.read(self._master, 65536):
                self._written += data
        except OSError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)
        os.close(self._slave)
        self._reader.join(timeout=60)
        os.close(self._master)
