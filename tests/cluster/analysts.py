"""Those who read the history of a cluster: the command line, notebooks, and who saw them."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from deltalake import DeltaTable

from local_cluster import LocalCluster
from support.analytics import SHORT_LIVED

PATIENCE = 240
# A statement as PostgreSQL logs it with all its lines, of which the first has the time.
_READ = re.compile(r"LOG:  (?:statement|execute [^:]*): (?:(?!\n\d{4}-).)*?skipmq_views", re.DOTALL)
FACTS = ["id", "xid", "message_id", "outcome"]

# Spark itself looks for a server that answers: nothing else asks one before.
COUNT = """
from skipmq import config
from skipmq.analytics import jdbc
from skipmq.analytics.spark import session
settings = config.load().settings
with jdbc.opened(settings.analytics_url) as source:
    spark = session.start(settings)
    print(source.read(spark, "skipmq_views.history").count(), "rows counted")
"""


def on(cluster: LocalCluster, url: str, name: str) -> str:
    """Return the URL of one server from the URL of all."""
    server = next(s for s in cluster.addresses()["postgres"] if s["name"] == name)
    return re.sub(r"@.*", f"@{server['host']}:{server['port']}/skipmq", url)


def standbys(cluster: LocalCluster) -> list[str]:
    """Return the names of the servers that are not the primary."""
    leader = cluster.leader()
    return [s["name"] for s in cluster.addresses()["postgres"] if s["name"] != leader]


def ask(url: str, question: str) -> Any:
    """Return the one value that is the answer."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def watch_readers(cluster: LocalCluster) -> None:
    """Have every server log what readers ask, and nothing that others do."""
    superuser = cluster.owner_url.replace(
        f"skipmq:{cluster.passwords.owner}", f"postgres:{cluster.passwords.superuser}"
    )
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("alter role skipmq_reader set log_statement = 'all'")


def reads(cluster: LocalCluster) -> dict[str, int]:
    """Return how often readers have read the history on each server, from Java and from Python.

    Who looks for a standby connects to a primary too, and goes when he sees what it is.
    """
    found = {}
    for server in cluster.addresses()["postgres"]:
        log = (cluster.folder / "logs" / f"{server['name']}.log").read_text(errors="replace")
        found[server["name"]] = len(_READ.findall(log))
    return found


@dataclass(frozen=True, slots=True)
class Analyst:
    """Somebody who runs `skipmq analytics` on a cluster, with a lake and a log."""

    cluster: LocalCluster
    folder: Path

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def log(self) -> str:
        """Return what all commands have said, however the lines were broken."""
        return " ".join((self.folder / "analyst.log").read_text(errors="replace").split())

    def launch(self, *words: str) -> subprocess.Popen[bytes]:
        """Start Python with these words."""
        others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
        settings = {
            "SKIPMQ_DATABASE_URL": self.cluster.node_url,
            "SKIPMQ_ANALYTICS_URL": self.cluster.analytics_url,
            "SKIPMQ_ARCHIVE": str(self.lake),
            "SKIPMQ_SPARK_MASTER": "local[2]",
            "PYSPARK_SUBMIT_ARGS": SHORT_LIVED,
        }
        with (self.folder / "analyst.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *words], env=others | settings, stdout=log, stderr=log
            )

    def begin_export(self) -> subprocess.Popen[bytes]:
        """Start an export."""
        return self.launch("-m", "skipmq", "analytics", "export")

    def export(self) -> dict[str, int]:
        """Export; return how often that read the history of each server."""
        return self._ended(self.begin_export)

    def count(self) -> dict[str, int]:
        """Have Spark count the history; return how often that read the one of each server."""
        return self._ended(lambda: self.launch("-c", COUNT))

    def _ended(self, begin: Callable[[], subprocess.Popen[bytes]]) -> dict[str, int]:
        before = reads(self.cluster)
        assert begin().wait(PATIENCE) == 0, self.log
        return {name: n - before[name] for name, n in reads(self.cluster).items()}

    def check_lake(self) -> int:
        """Check that the lake has what the primary has, each row once; return how many."""
        table = DeltaTable(self.lake / "history").to_pyarrow_table(columns=list(FACTS))
        rows = list(zip(*(table.column(name).to_pylist() for name in FACTS), strict=True))
        leader = on(self.cluster, self.cluster.owner_url, self.cluster.leader())
        with psycopg.connect(leader) as connection:
            there = connection.execute(
                f"select {', '.join(FACTS)} from skipmq_views.history order by 1, 2, 3, 4"
            ).fetchall()
        assert sorted(rows) == there
        return len(there)
