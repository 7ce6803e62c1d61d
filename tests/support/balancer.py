"""HAProxy with the shipped file, before a node."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.http import ROOT, free_port
from support.programs import need

FILE = ROOT / "deploy" / "haproxy" / "nodes.cfg"


@contextmanager
def started(node: int, **variables: str | Path) -> Iterator[int]:
    """Give the port of a balancer before the port of a node, with variables of the file."""
    need("haproxy")
    port = free_port()
    environment = {"LISTEN": f"127.0.0.1:{port}", "NODE1": f"127.0.0.1:{node}"}
    environment |= {name: str(value) for name, value in variables.items()}
    process = subprocess.Popen([str(shutil.which("haproxy")), "-db", "-f", FILE], env=environment)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(timeout=60)
