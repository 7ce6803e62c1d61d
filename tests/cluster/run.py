"""One run: load, faults, a drain, a look at all servers, and what the rules say of it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster import content, effects, outages
from cluster.checkers import CHECKERS, second_copies
from cluster.history import History, Op
from cluster.injector import Injector
from cluster.load import RATE, Load
from cluster.outages import Outage
from cluster.record import Record
from cluster.workers import Workers
from local_cluster import ClusterError, LocalCluster

_DRAIN = 120
# Load before the first fault, and after each.
_CALM = 2.0
# Findings of a rule that are worth a line each: who breaks it often breaks it in one way.
MOST = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    connect: str
    seed: int
    record: Record
    outages: list[Outage]
    findings: dict[str, list[str]]
    trouble: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return not self.trouble and not any(self.findings.values())

    def as_json(self) -> dict[str, Any]:
        begin = self.record.ops[0].t_invoke
        return {
            "connect": self.connect,
            "seed": self.seed,
            "seconds": round(self.record.end - begin, 1),
            "trouble": self.trouble,
            "counts": self.counts,
            "faults": [
                {
                    "fault": outage.window.fault,
                    "target": outage.window.target,
                    "at": round(outage.window.begin - begin, 2),
                    "outage": round(outage.seconds, 2),
                    "most": outage.window.bound.most,
                    "met": outage.met,
                }
                for outage in self.outages
            ],
            "findings": self.findings,
        }


def run(
    cluster: LocalCluster,
    file: Path,
    faults: Callable[[Injector], Iterator[str]],
    *,
    seed: int,
    connect: str = "multi-host",
    prefix: str = "",
    rate: float = RATE,
    slack: float = 1.0,
    told: Callable[[str, Sequence[Op]], None] = lambda _, __: None,
) -> Outcome:
    """Do a run; `faults` gives those to inflict, and `told` hears what is being done."""
    trouble = ""
    with History(file) as history:
        injector = Injector(cluster, history, seed)
        workers = Workers(
            cluster.owner_url, cluster.node_url, history, file.parent, seed=seed, prefix=prefix
        )
        with workers, Load(cluster.endpoint, history, seed=seed, prefix=prefix, rate=rate) as load:
            try:
                injector.look()
                time.sleep(_CALM)
                for name in faults(injector):
                    told(name, history.ops)
                    injector.inflict(name)
                    told("", history.ops)
                    time.sleep(_CALM)
            except ClusterError as error:
                trouble = str(error)
            told("drain", history.ops)
            load.drain(_DRAIN)
            workers.drain(_DRAIN)
            injector.look()
        workers.note()
        told("compare", history.ops)
        content.note(history, cluster.owner_url, cluster.addresses()["postgres"])
        told("check", history.ops)
    return judge(history.ops, seed=seed, connect=connect, slack=slack, trouble=trouble)


def judge(
    ops: Sequence[Op],
    *,
    seed: int = 0,
    connect: str = "multi-host",
    slack: float = 1.0,
    trouble: str = "",
) -> Outcome:
    """Return what the rules say of a history."""
    record = Record(ops, slack)
    findings = {name: list(check(record)) for name, check in CHECKERS.items()}
    return Outcome(
        connect, seed, record, outages.measure(record), findings, trouble, _counts(record, findings)
    )


def _counts(record: Record, findings: dict[str, list[str]]) -> dict[str, int]:
    values = [
        message for message, sends in record.sends.items() if any(s.type == "ok" for s in sends)
    ]
    sends = Counter(op.type for op in record.of("send"))
    receives = [op for op in record.of("receive") if op.message_id]
    return {
        "acknowledged messages": len(values),
        "lost": len(findings["no acknowledged send lost"]),
        "acknowledged sends": sends["ok"],
        "sends of unknown outcome": sends["info"],
        "refused sends": sends["fail"],
        "unknown, and came": sum(
            bool(record.by_value.get(message))
            for message, sends in record.sends.items()
            if not any(s.type == "ok" for s in sends)
        ),
        "stored a second time": second_copies(record),
        "deliveries": len(receives),
        "redeliveries": sum(op.receive_count > 1 for op in receives),
        "receives of unknown outcome": sum(op.type == "info" for op in record.of("receive")),
        "deletes of unknown outcome": sum(op.type == "info" for op in record.of("delete")),
        "worked by consumers": len(effects.jobs(record, "worked")),
        "consumers killed or stopped": sum(1 for kind in ("kill", "stop") for _ in record.of(kind)),
        "worked twice elsewhere": effects.repeats(record),
    }
