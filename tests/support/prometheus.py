"""Debian's Prometheus, which scrapes every second."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from support.http import eventually, free_port
from support.programs import need


class Prometheus:
    """A Prometheus with the targets of each job, all of the cluster `main`, and a file of rules."""

    def __init__(self, folder: Path, rules: Path, targets: Mapping[str, Sequence[str]]) -> None:
        need("prometheus")
        self.url = f"http://127.0.0.1:{free_port()}"
        every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        jobs = [
            {
                "job_name": job,
                "static_configs": [{"targets": [*found], "labels": {"cluster": "main"}}],
            }
            for job, found in targets.items()
        ]
        file = folder / "prometheus.json"  # JSON is YAML too.
        file.write_text(
            json.dumps({"global": every, "rule_files": [str(rules)], "scrape_configs": jobs})
        )
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stderr=self._log,
        )

    def __enter__(self) -> Self:
        try:
            eventually(self._answers)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def ask(self, path: str, **query: str) -> Any:
        """Return the data that it answers with; an expression that is not valid fails."""
        try:
            with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=10) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            with error:
                raise ValueError(f"{query}: {error.read().decode()}") from error

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        alerts = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def _answers(self) -> bool:
        assert self._process.poll() is None, Path(self._log.name).read_text()
        try:
            with urlopen(f"{self.url}/-/ready", timeout=10):
                return True
        except URLError:
            return False

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        self._log.close()
