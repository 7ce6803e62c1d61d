"""Requests to Patroni's REST API, and the wait for the database that it creates."""

import base64
import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any

from local_cluster.connection import connection
from local_cluster.errors import ClusterError
from local_cluster.layout import Server

USER = "patroni"
_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Member:
    """A server's own report; `role` is empty when it does not respond."""

    name: str
    role: str = ""
    state: str = ""
    timeline: int = 0
    position: int = 0
    is_streaming: bool = False
    sync: str = ""

    @property
    def is_primary(self) -> bool:
        """Return whether the server reports that it is the primary."""
        return self.role == "primary" and self.state == "running"


def run_once_created(
    command: Sequence[str], variables: Mapping[str, str], deadline: float, failure: str
) -> None:
    """Run a command on the database that Patroni creates, again while it is not there.

    A primary reports that it is running before the script that creates the database has ended.
    Raises ClusterError, which begins with `failure`; `deadline` is a time of time.monotonic.
    """
    while True:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if not done.returncode:
            return
        text = f"{done.stdout}{done.stderr}".strip()
        if "does not exist" not in text or time.monotonic() > deadline:
            raise ClusterError(f"{failure}: {text}")


def members(servers: Iterable[Server]) -> list[Member]:
    """Return the reports of all servers, requested concurrently."""
    servers = list(servers)
    with ThreadPoolExecutor(len(servers)) as pool:
        return list(pool.map(_member, servers))


def primary(servers: Iterable[Server]) -> Member:
    """Return the primary; raise ClusterError if there is none.

    It retries for some seconds, since on a busy machine a primary may not respond in time.
    """
    servers = list(servers)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not (found := [member for member in members(servers) if member.is_primary]):
        if time.monotonic() > deadline:
            raise ClusterError("no server is the primary at the moment")
        time.sleep(0.1)
    # A deposed primary may still report that role.
    return max(found, key=lambda member: member.timeline)


def _member(server: Server) -> Member:
    try:
        _, report = call(server, "GET", "/patroni")
    except ClusterError:
        return Member(server.name)
    xlog = report.get("xlog") or {}
    sync = (
        "quorum" if report.get("quorum_standby") else "sync" if report.get("sync_standby") else ""
    )
    return Member(
        name=server.name,
        role=str(report.get("role", "")),
        state=str(report.get("state", "")),
        timeline=int(report.get("timeline") or 0),
        position=int(xlog.get("location") or xlog.get("received_location") or 0),
        is_streaming=report.get("replication_state") == "streaming",
        sync=sync,
    )


def call(
    server: Server,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    password: str = "",
    timeout: float = 1.0,
) -> tuple[int, Any]:
    """Return the status and the response, decoded if it is JSON.

    Raises ClusterError when the server does not respond.
    """
    headers = {}
    if password:
        pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {pair}"
    asked = connection(server.host, server.rest_port, server.ca, timeout)
    try:
        asked.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = asked.getresponse()
        text = answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise ClusterError(f"Patroni of {server.name} does not respond: {error}") from error
    finally:
        asked.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, text


def change_settings(server: Server, settings: dict[str, Any], password: str) -> None:
    """Change settings of the whole cluster, as `patronictl edit-config` does."""
    status, answer = call(server, "PATCH", "/config", settings, password=password, timeout=5)
    if status != HTTPStatus.OK:
        raise ClusterError(f"Patroni refuses {settings}: {answer}")


def switchover(server: Server, leader: str, candidate: str, password: str) -> None:
    """Make another server the primary, and return when it is."""
    body = {"leader": leader} | ({"candidate": candidate} if candidate else {})
    status, answer = call(server, "POST", "/switchover", body, password=password, timeout=60)
    if status != HTTPStatus.OK:
        raise ClusterError(f"no switchover from {leader}: {answer}")


def write_for_patronictl(file: Path, etcd: Server, password: str) -> None:
    """Write a configuration with which patronictl can change settings; it has a password."""
    store: dict[str, Any] = {"hosts": [f"{etcd.host}:{etcd.etcd_port}"]}
    control = {"auth": f"{USER}:{password}"}
    if etcd.ca:
        own = etcd.ca.parent / etcd.name
        pair = {"cert": str(own / "server.crt"), "key": str(own / "server.key")}
        store |= {"protocol": "https", "cacert": str(etcd.ca), **pair}
        control["cacert"] = str(etcd.ca)
    file.touch(mode=0o600)
    # JSON is YAML.
    file.write_text(json.dumps({"etcd3": store, "ctl": control}))
