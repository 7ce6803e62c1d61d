"""PgBouncer before a server, in one of its modes."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from support.http import eventually, free_port
from support.programs import need

# With this sessions can be opened as nodes do: the pooler knows nothing of `options`.
IGNORES_OPTIONS = "ignore_startup_parameters = extra_float_digits, options"
ROUND_ROBIN = "server_round_robin = 1"


class PgBouncer:
    """A running PgBouncer that connects to one database, as the role of its URL."""

    def __init__(self, folder: Path, database: str, *settings: str) -> None:
        self._file = folder / "pgbouncer.ini"
        self._settings = settings
        self._server = psycopg.conninfo.conninfo_to_dict(database)
        self._port = free_port()
        self.url = f"postgresql://127.0.0.1:{self._port}/{self._server['dbname']}?user=any"

    def write(self, mode: str) -> None:
        """Write its file, which says in what mode it works."""
        server = " ".join(f"{key}={value}" for key, value in self._server.items())
        lines = [
            "[databases]",
            f"{self._server['dbname']} = {server}",
            "[pgbouncer]",
            f"listen_addr = 127.0.0.1\nlisten_port = {self._port}\nunix_socket_dir =",
            "auth_type = any",
            f"pool_mode = {mode}",
            *self._settings,
        ]
        self._file.write_text("\n".join(lines) + "\n")

    def answers(self) -> bool:
        """Return whether a client gets an answer through it."""
        try:
            with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
                return connection.execute("select 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    @contextmanager
    def running(self, mode: str) -> Iterator[None]:
        """Run it for the length of the block."""
        need("pgbouncer")
        self.write(mode)
        # It refuses to be root, and only the server's account reaches the server's socket.
        owner = Path(str(self._server["host"])).stat()
        account = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        self._process = subprocess.Popen(
            [str(shutil.which("pgbouncer")), "-q", self._file],
            **(account if os.geteuid() == 0 else {}),  # type: ignore[call-overload]
        )
        try:
            eventually(self.answers, why="PgBouncer answers")
            yield
        finally:
            self._process.terminate()
            self._process.wait(timeout=60)

    def change(self, mode: str) -> None:
        """Have it work in another mode from now on, as an operator's reload does."""
        self.write(mode)
        self._process.send_signal(signal.SIGHUP)
