"""Record what Prometheus would scrape around real faults, as tests of the alert rules.

In the folder tests: `PYTHONPATH=../deploy python -m alerts.record`. A cluster of this machine is
struck under load, its nodes, Patronis and etcds are scraped every second, and each fault leaves a
file for promtool in which no alert fires.
"""

import re
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from cluster.history import Op
from cluster.injector import Injector
from cluster.run import run
from local_cluster import LocalCluster

FAULTS = ("switchover", "postgres-crash", "server-freeze", "server-death")
FOLDER = Path(__file__).parent
RULES = FOLDER.parent.parent / "deploy" / "prometheus" / "skipmq.rules.yml"
# Before a fault, and from the end of one until its series end, in seconds: as many as a rule waits.
BEFORE, AFTER = 20.0, 90.0
# Then everything stays as it is for so many seconds: no alert may come late.
HELD = 900
_SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
# Others of the client library, and of etcd.
_ASKED = re.compile(r"\b(?:skipmq|patroni|etcd)_\w+")
_TIMEOUT = 0.9

Sample = dict[str, str]


class Recorder:
    """Scrapes every target once a second, as Prometheus does, in a thread of its own."""

    def __init__(self, cluster: LocalCluster, metrics: Iterable[str]) -> None:
        found = cluster.addresses()
        self._targets = [
            *(
                ("skipmq", f"{node['name']}:9324", f"{node['url']}/metrics")
                for node in found["nodes"]
            ),
            *(("patroni", f"{s['name']}:8008", f"{s['rest']}/metrics") for s in found["postgres"]),
            *(("etcd", f"{etcd['name']}:2379", f"{etcd['url']}/metrics") for etcd in found["etcd"]),
        ]
        self._metrics = set(metrics)
        self._samples: list[tuple[float, Sample]] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> list[Sample]:
        """Return the scrapes of a time of time.monotonic."""
        return [sample for at, sample in self._samples if begin <= at <= end]

    def _run(self) -> None:
        with ThreadPoolExecutor(len(self._targets)) as pool:
            due = time.monotonic()
            while not self._ending.wait(max(0.0, due - time.monotonic())):
                at, due = time.monotonic(), due + 1
                parts = pool.map(self._scrape, self._targets)
                self._samples.append((at, {k: v for part in parts for k, v in part.items()}))

    def _scrape(self, target: tuple[str, str, str]) -> Sample:
        job, instance, url = target
        labels = f'cluster="recorded",instance="{instance}",job="{job}"'
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
                text = answer.read().decode()
        except OSError:
            return {f"up{{{labels}}}": "0"}
        found = {f"up{{{labels}}}": "1"}
        for name, own, value in _SAMPLE.findall(text):
            if name in self._metrics:
                found[f"{name}{{{labels}{own and ',' + own}}}"] = f"{float(value):.0f}"
        return found


def series(samples: Sequence[Sample]) -> dict[str, str]:
    """Return the values of each series in the notation of promtool, stale where they end."""
    found = {}
    for name in sorted({name for sample in samples for name in sample}):
        values, before = [], "_"
        for sample in samples:
            gone = "_" if before in {"_", "stale"} else "stale"
            before = sample.get(name, gone)
            values.append(before.replace("nan", "NaN"))
        held = f"_x{HELD}" if before in {"_", "stale", "nan"} else f"{before}+0x{HELD - 1}"
        found[name] = " ".join([*_shortened(values), held])
    return found


def _shortened(values: Sequence[str]) -> Iterator[str]:
    begin = 0
    for end in range(1, len(values) + 1):
        if end == len(values) or values[end] != values[begin]:
            times, value = end - begin, values[begin]
            if times == 1 or value in {"stale", "NaN"}:
                yield from [value] * times
            else:
                yield f"_x{times}" if value == "_" else f"{value}+0x{times - 1}"
            begin = end


def write(fault: str, seconds: float, samples: Sequence[Sample]) -> None:
    """Write the file for promtool: no alert fires while the series last."""
    lines = [
        f"# Recorded every second around a real fault: {fault}, {seconds:.1f} s without an",
        "# acknowledged send. Written by record.py.",
        "rule_files: [../../deploy/prometheus/skipmq.rules.yml]",
        "evaluation_interval: 5s",
        "tests:",
        "  - interval: 1s",
        "    input_series:",
    ]
    for name, values in series(samples).items():
        lines += [f"      - series: '{name}'", f"        values: '{values}'"]
    lines += [
        "    promql_expr_test:",
        '      - expr: count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))',
        f"        eval_time: {len(samples) + HELD}s",
    ]
    (FOLDER / f"recorded-{fault}.yml").write_text("\n".join(lines) + "\n")


def main(names: Sequence[str]) -> None:
    """Inflict the faults one after the other and write what was scraped."""
    marks: list[tuple[str, float]] = []

    def faults(_: Injector) -> Iterator[str]:
        for name in names:
            time.sleep(BEFORE)
            yield name
            time.sleep(AFTER)

    def note(name: str, _: Sequence[Op]) -> None:
        marks.append((name, time.monotonic()))

    work = FOLDER.parent.parent / ".cache" / "alerts"
    with (
        LocalCluster(work) as cluster,
        Recorder(cluster, _ASKED.findall(RULES.read_text())) as recorder,
    ):
        outcome = run(cluster, work / "history.jsonl", faults, seed=1, told=note)
    for outage, (index, (name, begin)) in zip(
        outcome.outages, ((i, m) for i, m in enumerate(marks) if m[0] in names), strict=True
    ):
        healed = marks[index + 1][1]
        sys.stdout.write(f"{name}: {outage.seconds:.2f} s, rules kept: {outcome.good}\n")
        write(name, outage.seconds, recorder.between(begin - BEFORE, healed + AFTER))


if __name__ == "__main__":
    main(sys.argv[1:] or FAULTS)
