"""Troubles of the database, its server and the worker processes of all nodes."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any

from skipmq.broker.trouble_kinds import KINDS, SILENT_SECONDS, bound, described
from skipmq.broker.workers import Worker
from skipmq.database import monitor
from skipmq.database.monitor import TableLock

# A worker is slow that takes this many times as long as the median of the others.
SLOW_FACTOR = 3
_MANY_REQUESTS = 100
# Dead rows are trouble where they are this many times the live ones.
_BLOAT = 2


def lock_troubles(lock: TableLock | None) -> list[dict[str, Any]]:
    """Return the trouble of a lock that keeps requests waiting."""
    if lock is None:
        return []
    return [described("table-locked", reason=lock.session, seconds=lock.seconds)]


def database_troubles(database: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the troubles of the database as described, or of the router and each partition."""
    found = _server_troubles(database)
    for partition in database.get("Partitions", []):
        number = partition["Partition"]
        found += [
            each | {"Partition": number, "Summary": f"Partition {number}: {each['Summary']}"}
            for each in _server_troubles(partition)
        ]
    return found


def _server_troubles(database: dict[str, Any]) -> list[dict[str, Any]]:
    state = database["State"]
    if state not in monitor.SERVING:
        reason = database.get("Reason")
        name = f"database-{state.replace('_', '-')}"
        shown = described(name, seconds=database["StateSeconds"])
        return [shown | ({"Reason": reason} if reason else {})]
    found = [*_damage(database)]
    replication = database.get("Replication")
    if replication is not None and replication["StandbyCount"] < replication["Required"]:
        found.append(described("standbys"))
    server = database.get("Server", {})
    oldest = server.get("OldestSnapshotSeconds")
    if oldest is not None and oldest > bound("snapshot"):
        held = described("snapshot", seconds=oldest)
        session = server.get("OldestSnapshotSession")
        found.append(held | ({"Reason": session} if session else {}))
    return [*found, *_number_troubles(database.get("Numbers", []))]


def _number_troubles(numbers: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    found: dict[str, dict[str, int]] = {}
    for each in numbers:
        found.setdefault(each["Name"], {})[each["Label"]] = each["Value"]

    def value(name: str) -> int:
        return found.get(name, {}).get("", 0)

    sessions = value("sessions")
    if sessions > bound("sessions") * value("most sessions"):
        yield described("sessions", messages=sessions)
    for standby, behind in found.get("standby lag bytes", {}).items():
        if behind > bound("replication-lag"):
            yield described("replication-lag", reason=standby, size=behind)
    for table, dead in found.get("dead rows", {}).items():
        live = found.get("live rows", {}).get(table, 0)
        if dead > bound("bloated") and dead > _BLOAT * live:
            yield described("bloated", reason=table, messages=dead)
    if (age := value("frozen age")) > bound("not-frozen"):
        yield described("not-frozen", messages=age)
    if (counted := value("counted age")) > bound("counts"):
        yield described("counts", seconds=counted)


def _damage(database: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a trouble for each relation with damaged pages, with the remedies."""
    by_relation: dict[str, list[dict[str, Any]]] = {}
    for page in database.get("Damage", []):
        by_relation.setdefault(page["Relation"] or "an unknown relation", []).append(page)
    for relation, pages in by_relation.items():
        seconds = max(page["Seconds"] for page in pages)
        found = described("damaged", seconds=seconds, messages=len(pages), reason=relation)
        yield found | {"Reason": "; ".join(f"{page['Error']}: {page['Remedy']}" for page in pages)}


def worker_troubles(workers: Sequence[Worker], now: float) -> list[dict[str, Any]]:
    """Return the troubles of workers by their heartbeats; `now` is in seconds since 1970."""
    alive = [each for each in workers if each.seen < SILENT_SECONDS]
    found = [
        described("worker-silent", reason=each.node, seconds=each.seen)
        for each in workers
        if each.seen >= SILENT_SECONDS
    ]
    found += _slow(alive)
    for each in alive:
        found += _figure_troubles(each, now)
    return sorted(_once(found), key=lambda each: [*KINDS].index(each["Trouble"]))


def _figure_troubles(worker: Worker, now: float) -> Iterator[dict[str, Any]]:
    figures, host = worker.figures, worker.node
    if figures.get("refused", 0) > bound("requests-refused"):
        yield described("requests-refused", reason=host)
    if figures.get("cut", 0) > bound("database-slow"):
        yield described("database-slow", reason=host)
    if (memory := figures.get("memory", 0)) > bound("node-grows"):
        yield described("node-grows", reason=host, size=memory)
    skew = figures.get("clock_skew", 0)
    if abs(skew) > bound("clock-skew"):
        yield described("clock-skew", reason=host, seconds=abs(skew), lasts=False)
    left = figures.get("certificate_ends", float("inf")) - now
    if left < bound("certificate"):
        yield described("certificate", reason=host, seconds=max(left, 0), lasts=False)
    if (days := figures.get("unarchived_days", 0)) > bound("archive-behind"):
        yield described("archive-behind", messages=int(days))


def _slow(alive: Sequence[Worker]) -> Iterator[dict[str, Any]]:
    """Yield that requests are slow, or the workers that are slower than the others."""
    slowest = {each.process: slowness(each.figures) for each in alive if _is_used(each)}
    slow = [seconds for seconds in slowest.values() if seconds > bound("requests-slow")]
    if 2 * len(slow) > len(slowest):
        yield described("requests-slow", seconds=median(slow), lasts=False)
        return
    for each in alive:
        own = slowest.pop(each.process, 0.0)
        usual = median(slowest.values()) if slowest else 0.0
        if own > bound("node-slow") and own >= SLOW_FACTOR * usual:
            yield described("node-slow", reason=each.node)
        if _is_used(each):
            slowest[each.process] = own


def _is_used(worker: Worker) -> bool:
    """Return whether a worker had enough requests in the last minute for a hundredth to count."""
    return 60 * (worker.figures.get("requests") or 0) >= _MANY_REQUESTS


def slowness(figures: dict[str, float]) -> float:
    """Return the seconds of the slowest hundredth of requests, or the loop's lag if longer."""
    return max(figures.get("p99") or 0.0, figures.get("lag") or 0.0)


def _once(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one of equal troubles of several workers of a node."""
    return [*{(each["Trouble"], each["Summary"]): each for each in found}.values()]
