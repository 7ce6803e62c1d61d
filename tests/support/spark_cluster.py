"""A standalone cluster of Spark on this machine: a master and workers, from the PySpark here."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from support import trees
from support.http import eventually
from support.processes import files_of

PATIENCE = 300
PROGRAMS = Path(sys.executable).parent
# What the administrator of a cluster writes; here for Java that lives for seconds.
_DEFAULTS = """
spark.eventLog.enabled true
spark.eventLog.dir {events}
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
spark.ui.enabled false
spark.driver.memory 768m
spark.executor.memory 768m
spark.driver.defaultJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.defaultJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""


# A shell in which a folder is another one, as it is on another machine.
_APART = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')


@dataclass(slots=True)
class SparkCluster:
    """A master, and workers of one core each; `url` is what names it.

    What is in `alone` the workers do not see, where this account may arrange that (`apart`).
    """

    folder: Path
    url: str = ""
    apart: tuple[str | Path, ...] = ()
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def alone(self) -> Path:
        return self.folder / "alone"

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of who uses the cluster, with nothing of another Spark."""
        others = {k: v for k, v in os.environ.items() if not re.match("(PY)?SPARK|SKIPMQ", k)}  # noqa: TID251
        ours = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        return others | ours | variables

    def add_worker(self) -> None:
        """Start one more worker, and wait until the master knows it."""
        known = self._master_says("Registering worker")
        work = self.folder / f"work-{len(self.daemons)}"
        self._daemon("worker.Worker", "-c", "1", "-m", "768m", "-d", str(work), self.url)
        eventually(lambda: len(self._master_says("Registering worker")) > len(known), PATIENCE)

    def kill_who_writes(self, place: Path) -> None:
        """Kill a worker while an executor of its has a file open below a folder."""
        eventually(lambda: any(self._killed(d, place) for d in self.daemons[1:]), PATIENCE)

    def _killed(self, worker: subprocess.Popen[bytes], place: Path) -> bool:
        if not _writes(worker.pid, place):
            return False
        with trees.frozen(worker.pid):
            if not _writes(worker.pid, place):
                return False
            trees.kill(worker.pid)
        worker.wait()
        self.daemons.remove(worker)
        return True

    def ends_of_tasks(self) -> list[tuple[str, str]]:
        """Return of the last application how each task ended, and on which executor."""
        logs = (self.folder / "events").iterdir()
        newest = max(logs, key=lambda file: file.stat().st_mtime_ns)
        events: list[dict[str, Any]] = list(map(json.loads, newest.read_text().splitlines()))
        return [
            (event["Task End Reason"]["Reason"], event["Task Info"]["Executor ID"])
            for event in events
            if event["Event"] == "SparkListenerTaskEnd"
        ]

    def _start(self) -> None:
        for name in ("conf", "events", "local", "alone"):
            (self.folder / name).mkdir(parents=True)
        tried = subprocess.run([*_APART, self.alone, "true"], capture_output=True, check=False)
        self.apart = () if tried.returncode else (*_APART, self.alone)
        told = _DEFAULTS.format(events=(self.folder / "events").as_uri())
        (self.folder / "conf" / "spark-defaults.conf").write_text(told)
        self._daemon("master.Master")
        (self.url,) = eventually(
            lambda: set(self._master_says(r"spark://127\.0\.0\.1:\d+")), PATIENCE
        )
        self.add_worker()
        self.add_worker()

    def _daemon(self, name: str, *arguments: str) -> None:
        variables = self.environment(
            PYSPARK_PYTHON=sys.executable,
            SPARK_DAEMON_MEMORY="256m",
            SPARK_DAEMON_JAVA_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            " -Dspark.master.rest.enabled=false",
        )
        apart = self.apart if name.startswith("worker") else ()
        program = PROGRAMS / "spark-class"
        where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons.append(
                subprocess.Popen(
                    [*apart, program, f"org.apache.spark.deploy.{name}", *where, *arguments],
                    env=variables,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _master_says(self, pattern: str) -> list[str]:
        assert self.daemons[0].poll() is None
        return re.findall(pattern, (self.folder / "master.Master.log").read_text())


def _writes(pid: int, place: Path) -> bool:
    """Tell whether a process, or one that it started, has a file open below a folder."""
    for process in trees.trees([pid]):
        with suppress(FileNotFoundError, psutil.NoSuchProcess):
            if any(file.is_relative_to(place) for file in files_of(process.pid)):
                return True
    return False


@contextmanager
def started(folder: Path) -> Iterator[SparkCluster]:
    """Give a cluster with two workers, and end it with all that it has started."""
    cluster = SparkCluster(folder)
    try:
        cluster._start()  # noqa: SLF001 - of this module.
        yield cluster
    finally:
        trees.kill(*(daemon.pid for daemon in cluster.daemons))
        for daemon in cluster.daemons:
            daemon.wait()
