"""Routers: their data before they start, and their functions afterwards."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from local_cluster import patroni
from local_cluster.errors import ClusterError
from local_cluster.layout import Router
from local_cluster.parts import Part, Supervisor
from local_cluster.recipes import Recipes, own_environment

# Only superusers may create functions of PL/Proxy.
_SUPERUSER, _DATABASE = "postgres", "skipmq"
_FAILURE = "no router could be made"
_PLAIN = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class Routers:
    """The routers of a cluster with partitions; `server` has the programs of PostgreSQL."""

    def __init__(self, recipes: Recipes, server: Path) -> None:
        self._recipes, self._server = recipes, server
        self._routers = recipes.layout.routers

    def parts(self) -> list[Part]:
        """Return a part for each router."""
        return [self._recipes.router(router, self._server) for router in self._routers]

    def start(self, supervisor: Supervisor, deadline: float) -> None:
        """Create their empty databases, start them, and wait until they accept connections.

        Raises ClusterError at a time of time.monotonic.
        """
        with _Secret(self._recipes, self._recipes.passwords.superuser) as password:
            for router in self._routers:
                self._create(router, password)
        supervisor.start(*(router.name for router in self._routers))
        while late := [router for router in self._routers if not self._is_up(router)]:
            if time.monotonic() > deadline:
                log = supervisor.part(late[0].name).last_lines()
                raise ClusterError(f"{late[0].name} did not come up: {log}")
            time.sleep(0.1)

    def init(self, skipmq: Sequence[str], partitions: Sequence[str], deadline: float) -> None:
        """Make databases, given by their owner's URL, the partitions of each router.

        Raises ClusterError where they are not there at a time of time.monotonic.
        """
        given = [word for url in partitions for word in ("--partition", url)]
        with _Secret(self._recipes, self._recipes.passwords.node) as password:
            given += ["--node-password-file", str(password)]
            for router in self._routers:
                url = self._recipes.url("postgres", router.postgres)
                command = [*skipmq, "partitions", "init", "--router", url, *given]
                patroni.run_once_created(command, own_environment(), deadline, _FAILURE)

    def _create(self, router: Router, password: Path) -> None:
        folder = str(self._recipes.data / router.name)
        account = self._recipes.programs.account.words()
        words = ["-D", folder, "-U", _SUPERUSER, "--pwfile", str(password), "--no-sync"]
        words += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"]
        _run([*account, str(self._server / "initdb"), *words])
        if self._recipes.layout.ca:
            rules = self._recipes.data / router.name / "pg_hba.conf"
            rules.write_text(rules.read_text().replace("\nhost ", "\nhostssl "))
        single = [*account, str(self._server / "postgres"), "--single", "-D", folder, "postgres"]
        _run(single, f"create database {_DATABASE}\n")

    def _is_up(self, router: Router) -> bool:
        host, port = router.postgres.split(":")
        asked = [str(self._server / "pg_isready"), "--quiet", "--host", host, "--port", port]
        return subprocess.run(asked, env=_PLAIN, check=False).returncode == 0


class _Secret:
    """A file with a password, for the account that runs the servers, while the block runs."""

    def __init__(self, recipes: Recipes, text: str) -> None:
        self._file, self._text = recipes.data / "password", text
        self._account = recipes.programs.account

    def __enter__(self) -> Path:
        self._file.touch(mode=0o600)
        self._file.write_text(self._text)
        os.chown(self._file, self._account.uid, self._account.gid)
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)


def _run(command: list[str], text: str = "") -> None:
    done = subprocess.run(
        command,
        input=text,
        env=_PLAIN,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ClusterError(f"{_FAILURE}: {done.stdout}{done.stderr}".strip())
