"""A broker whose primary dies while its standby lacks the last commits."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from skipmq.database import embedded
from support import servers, standby
from support.clock import connect
from support.http import NodeProcess
from support.postgres import Databases
from support.processes import postmaster_of
from support.proxy import Proxy


def socket_of(server: embedded.Server) -> Path:
    """Return the path of a server's Unix-domain socket."""
    return Path(str(psycopg.conninfo.conninfo_to_dict(server.url)["host"])) / ".s.PGSQL.5432"


class Lagging:
    """A node behind a proxy that leads to the primary and, once that is dead, to the standby."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._primary = self._stack.enter_context(
            servers.start(folder / "lagging-primary", ephemeral=True, migrated=True)
        )
        # The owner's address: of the primary, and of the standby after the failover.
        self.url = Databases(self._primary).migrated()
        self._name = str(psycopg.conninfo.conninfo_to_dict(self.url)["dbname"])
        self.proxy = self._stack.enter_context(Proxy(socket_of(self._primary)))
        through = f"postgresql://skipmq_node@127.0.0.1:{self.proxy.port}/{self._name}"
        self.node = self._stack.enter_context(NodeProcess(database_url=through, workers=1)).ready()

    def close(self) -> None:
        self._stack.close()

    def leave_behind(self) -> None:
        """Make the standby, which gets no commit from now on."""
        folder = self._folder / "lagging-standby"
        standby.copy(self._primary.url, folder)
        with (folder / "postgresql" / "postgresql.auto.conf").open("a") as settings:
            settings.write("primary_conninfo = ''\n")

    @contextmanager
    def failover(self) -> Iterator[None]:
        """Kill the primary and promote the standby; nodes reach it after the block."""
        with self.proxy.refusing():
            os.kill(postmaster_of(Path(self._primary.data_dir)), signal.SIGKILL)
            promoted = self._stack.enter_context(servers.start(self._folder / "lagging-standby"))
            with connect(promoted.url) as admin:
                admin.execute("select pg_promote()")
            self.url = Databases(promoted).url(self._name)
            self.proxy.redirect(socket_of(promoted))
            yield
