"""Trino on this machine, one server that reads Delta tables in a folder."""

import json
import re
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import trees
from support.http import eventually, free_port
from support.programs import INSTALLED, maven, not_here

PATIENCE = 180
# The last release that Maven Central has whole.
VERSION = "476"
_JAVA = 24
_PARTS = ("bin", "lib", "plugin/delta-lake")
_CONFIGURATION = {
    "node.properties": "node.environment=test\nnode.data-dir={folder}/data\n",
    "jvm.config": "-Xmx1G\n-XX:TieredStopAtLevel=1\n-Djdk.attach.allowAttachSelf=true\n"
    "--enable-native-access=ALL-UNNAMED\n--sun-misc-unsafe-memory-access=allow\n",
    "config.properties": "coordinator=true\nnode-scheduler.include-coordinator=true\n"
    "http-server.http.port={port}\ndiscovery.uri={url}\n",
    "catalog/lake.properties": "connector.name=delta_lake\nhive.metastore=file\n"
    "hive.metastore.catalog.dir=local:///metastore\nfs.native-local.enabled=true\n"
    "local.location={files}\ndelta.register-table-procedure.enabled=true\n",
}


class Trino:
    """A server, and the tables that it was told of."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.rows("create schema lake.skipmq with (location = 'local:///schema')")

    def register(self, name: str, folder: str) -> None:
        """Have `lake.skipmq.NAME` be the Delta table in a folder below the server's files."""
        self.rows(f"call lake.system.register_table('skipmq', '{name}', 'local:///{folder}')")
        # It has started before it has found itself as a node that may read.
        read = f"select count(*) from lake.skipmq.{name}"
        eventually(lambda: "No nodes available" not in self._run(read)[1], PATIENCE)

    def rows(self, statement: str) -> list[list[Any]]:
        """Return the rows of a statement, by Trino's client protocol."""
        rows, error = self._run(statement)
        assert not error, error
        return rows

    def _run(self, statement: str) -> tuple[list[list[Any]], str]:
        rows: list[list[Any]] = []
        answer = self._ask("/v1/statement", statement.encode())
        while "nextUri" in answer:
            answer = self._ask(answer["nextUri"].removeprefix(self._url))
            rows += answer.get("data", [])
        return rows, answer.get("error", {}).get("message", "")

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        headers = {"X-Trino-User": "test", "X-Trino-Time-Zone": "UTC"}
        request = urllib.request.Request(self._url + path, body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def _java() -> Path:
    """Return the home of a Java that runs Trino; skip the test where there is none."""
    releases = Path("/usr/lib/jvm").glob("*/release")
    versions = {
        int(found[1]): each.parent
        for each in releases
        if (found := re.search(r'JAVA_VERSION="(\d+)', each.read_text()))
    }
    if versions and max(versions) >= _JAVA:
        return versions[max(versions)]
    return not_here(f"Trino {VERSION} runs on Java {_JAVA} or newer, which Debian 12 does not have")


def _server() -> Path:
    """Return the folder of the server, which Maven brings (0.8 GB)."""
    folder = INSTALLED.parent / "trino" / f"trino-server-{VERSION}"
    if not folder.exists():
        archive = maven(f"io.trino:trino-server:{VERSION}:tar.gz", folder.parent)
        with tarfile.open(archive) as packed:
            wanted = tuple(f"{folder.name}/{part}/" for part in _PARTS)
            unpacked = folder.with_name("unpacked")
            members = (each for each in packed if each.name.startswith(wanted))
            packed.extractall(unpacked, members, filter="tar")
        (unpacked / folder.name).rename(folder)
        unpacked.rmdir()
        archive.unlink()
    return folder


@contextmanager
def running(folder: Path, files: Path) -> Iterator[Trino]:
    """Give a server that reads what is below `files` and ends with the block."""
    java, server, port = _java(), _server(), free_port()
    url = f"http://127.0.0.1:{port}"
    for name, text in _CONFIGURATION.items():
        file = folder / "etc" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(folder=folder, files=files, port=port, url=url))
    log = folder / "log"
    command = [server / "bin" / "launcher", "run", "--etc-dir", folder / "etc"]
    with log.open("ab") as told:
        process = subprocess.Popen(
            command,
            env={"JAVA_HOME": str(java), "PATH": f"{java}/bin:/usr/bin:/bin"},
            stdout=told,
            stderr=told,
            start_new_session=True,
        )
    try:
        eventually(lambda: "SERVER STARTED" in log.read_text(), PATIENCE, str(log))
        yield Trino(url)
    finally:
        trees.kill(process.pid)
        process.wait()
