"""The versions of what takes part."""

import json
import re
import subprocess
import urllib.request
from typing import Any

import psycopg

import skipmq
from local_cluster import LocalCluster


def versions(cluster: LocalCluster) -> dict[str, str]:
    """Return the versions of the parts of a cluster that runs."""
    parts = cluster.addresses()
    with psycopg.connect(cluster.owner_url) as connection:
        row = connection.execute("show server_version").fetchone()
    assert row is not None
    said = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=False).stdout
    haproxy = re.search(r"version ([0-9.]+)", said)
    return {
        "SkipMQ": skipmq.__version__,
        "PostgreSQL": row[0].split()[0],
        "Patroni": _fetch(f"{parts['postgres'][0]['rest']}/patroni")["patroni"]["version"],
        "etcd": _fetch(f"{parts['etcd'][0]['url']}/version")["etcdserver"],
        "HAProxy": haproxy[1] if haproxy else "?",
    }


def _fetch(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as response:
        found: dict[str, Any] = json.load(response)
    return found
