"""Who strikes the cluster, one fault at a time, and notes when."""

import random
import time
import urllib.request
from collections.abc import Iterator, Sequence
from http import HTTPStatus

from cluster.faults import FAULTS
from cluster.history import History, Op
from local_cluster import ClusterError, LocalCluster

_PATIENCE = 120


class Injector:
    """Inflicts faults on a cluster; what it chooses follows from the seed."""

    def __init__(self, cluster: LocalCluster, history: History, seed: int) -> None:
        self._cluster = cluster
        self._history = history
        self._chance = random.Random(f"{seed} injector")  # noqa: S311 - no secret.
        self._number = 0

    def order(self, names: Sequence[str]) -> Iterator[str]:
        """Give all names in some order, and then again in others."""
        while True:
            yield from self._chance.sample(names, len(names))

    def inflict(self, name: str) -> None:
        """Strike, wait, heal, and wait until the cluster is healthy and sends are acknowledged.

        Raises ClusterError when it does not come to that.
        """
        self._number += 1
        fault = FAULTS[name]
        self.look()
        begun = time.monotonic()
        with fault.strike(self._cluster, self._chance) as target:
            self._note("strike", name, target, begun)
            time.sleep(fault.lasts)
            self._note("heal", name, target, time.monotonic())
        begun = time.monotonic()
        self._cluster.wait_healthy(_PATIENCE)
        self._await_etcd()
        self._note("healthy", name, target, begun)
        self.look()
        self._await_send()

    def look(self) -> None:
        """Note how many primaries there have been: one may go that nobody struck."""
        begun = time.monotonic()
        timelines = [member.timeline for member in self._cluster.members() if member.is_primary]
        if timelines:
            now = time.monotonic()
            number = max(timelines)
            self._history.add(Op("timeline", "ok", "injector", begun, now, sequence_number=number))

    def _await_etcd(self) -> None:
        """Wait until every member has a leader: else the next fault would be two at a time."""
        deadline = time.monotonic() + _PATIENCE
        waiting = [member["url"] for member in self._cluster.addresses()["etcd"]]
        while waiting := [url for url in waiting if not _has_leader(url)]:
            if time.monotonic() > deadline:
                raise ClusterError(f"etcd is not healthy: {', '.join(waiting)}")
            time.sleep(0.1)

    def _await_send(self) -> None:
        since, seen = time.monotonic(), len(self._history.ops)
        while time.monotonic() < since + _PATIENCE:
            for op in self._history.ops[seen:]:
                if op.op == "send" and op.type == "ok" and op.t_invoke > since:
                    return
            time.sleep(0.05)

    def _note(self, kind: str, name: str, target: str, begun: float) -> None:
        now = time.monotonic()
        self._history.add(Op(kind, "info", target, begun, now, value=name, place=self._number))


def _has_leader(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False
