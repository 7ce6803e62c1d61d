"""One run of the benchmark: what its cases share, and how contestants are measured in turn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from rich.progress import Progress

from bench import databases, load, machine, peers, wire
from bench.load import Failed, Outcome, Shape
from bench.machine import Unavailable
from bench.peers import Broker
from bench.record import Comparison, WarmUp
from bench.usage import Meter
from bench.wire import Refused
from skipmq.protocol.limits import DEFAULT_ACCOUNT as ACCOUNT
from support.http import SKIPMQ
from support.postgres import Databases, as_node

SQL, PGMQ = "SQL functions", "PGMQ"
# What --peer calls them.
PEERS = {
    "skipmq": peers.SKIPMQ_NAME,
    "sql": SQL,
    "pgmq": PGMQ,
    "empty": peers.EMPTY,
    "elasticmq": peers.ELASTICMQ,
    "elasticmq-persistent": peers.ELASTICMQ_PERSISTENT,
    "moto": peers.MOTO,
}
Measure: TypeAlias = Callable[[int], Outcome]
TROUBLE = (Failed, Unavailable, Refused, OSError, EOFError)
_ALIKE = 0.05
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Form:
    """How long a case is: rounds, seconds of a measurement, its warm-up, and sizes of its own.

    A warm-up consists of windows of `window` seconds (0: no warm-up) until the rate stands still
    and, of a JVM, its processor time a request has reached no new low for `jvm` seconds; for `most`
    seconds at most.
    """

    rounds: int
    seconds: int
    window: int = 5
    most: int = 180
    jvm: int = 30
    sizes: Mapping[str, Any] = field(default_factory=dict)


def quick(rounds: int, seconds: int, **sizes: Any) -> Form:
    """Return a form whose warm-up is too short for a JVM to show what it can."""
    return Form(rounds, seconds, window=1, most=3, jvm=3, sizes=sizes)


def warm_up(measure: Measure, form: Form, *, jvm: bool) -> WarmUp:
    """Measure windows until the contestant is steady or the time is up.

    On a busy machine a JVM that still compiles has windows of like rates long before it is warm: it
    is steady when its processor time a request has reached no new low for `form.jvm` seconds.
    """
    rates: list[float] = []
    costs: list[float] = []
    while True:
        # One that is cold may not answer yet; if it never does, its first round says why.
        outcome = Outcome(0, {})
        with suppress(Failed):
            outcome = measure(form.window)
        rates.append(outcome.rate)
        costs.append(outcome.details.get("broker_us", inf))
        seconds = len(rates) * form.window
        steady = _stands_still(rates)
        if jvm:
            steady = steady and _at_its_lowest(costs, form.jvm // form.window)
        if steady or seconds >= form.most:
            return WarmUp(seconds, rates, steady)


def _stands_still(rates: Sequence[float]) -> bool:
    """Say whether the last two rates are alike, or the medians of the last three and three before.

    The second is so of one that wavers, as a disk does, but no longer goes up or down.
    """
    pairs = [(rates[-1], rates[-2])] if len(rates) > 1 else []
    if len(rates) >= 6:
        pairs.append((median(rates[-3:]), median(rates[-6:-3])))
    return any(abs(later - earlier) < _ALIKE * max(later, earlier) for later, earlier in pairs)


def _at_its_lowest(costs: Sequence[float], windows: int) -> bool:
    """Say whether so many last windows are hardly cheaper than those before them."""
    earlier, later = costs[:-windows], costs[-windows:]
    return bool(earlier) and min(later) >= (1 - _ALIKE) * min(earlier) < inf


@dataclass(slots=True)
class Run:
    folder: Path
    databases: Databases
    wanted: frozenset[str]
    progress: Progress
    show: Callable[[Comparison], None]
    form: Form = field(default_factory=lambda: Form(1, 1))
    case: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    # The command `skipmq` of another checkout that takes part.
    before: str = ""

    def wants(self, name: str) -> bool:
        return name in self.wanted

    @contextmanager
    def brokers(self, *names: str) -> Iterator[dict[str, Broker]]:
        """Run those of the brokers that are wanted; one that cannot start is noted as absent."""
        self.absent = {}
        starts: dict[str, Callable[[ExitStack], Broker]] = {
            # One worker: what `skipmq serve` runs on two cores that are the database's too.
            **{name: partial(self._node, program) for name, program in self.programs().items()},
            peers.ELASTICMQ: lambda s: s.enter_context(peers.elasticmq(self.folder)),
            peers.ELASTICMQ_PERSISTENT: lambda s: s.enter_context(
                peers.elasticmq(self.folder, persistent=True)
            ),
            peers.MOTO: lambda s: s.enter_context(peers.moto(self.folder)),
        }
        with ExitStack() as stack:
            found = {}
            for name in names or starts:
                if self.wants(name) and name in starts:
                    with self.noting(name):
                        found[name] = starts[name](stack)
            yield found

    def _node(self, program: Sequence[str], stack: ExitStack) -> Broker:
        database = self.database(stack, program)
        return stack.enter_context(peers.skipmq(database, workers=1, program=program))

    def programs(self) -> dict[str, list[str]]:
        """Return the command of each SkipMQ that takes part."""
        before = {peers.BEFORE: [self.before]} if self.before else {}
        return {peers.SKIPMQ_NAME: SKIPMQ} | before

    def database(self, stack: ExitStack, program: Sequence[str] = SKIPMQ) -> str:
        return stack.enter_context(databases.migrated(self.databases, program))

    def fill(self, database: str, queue: str, messages: int, groups: int = 0) -> None:
        """Send a backlog to the queue at a URL, and show how far that is."""
        title = f"{self.case}: filling: {messages:,} waiting"
        task = self.progress.add_task(title, total=messages)
        name = queue.rpartition("/")[2]
        databases.fill(database, name, messages, groups, lambda n: self.progress.advance(task, n))
        self.progress.remove_task(task)

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Note why a contestant cannot take part, instead of ending the run."""
        try:
            yield
        except TROUBLE as error:
            self.absent[name] = machine.reason(error)

    def compare(
        self,
        title: str,
        unit: str,
        measures: Mapping[str, Measure],
        reference: str,
        *,
        rounds: int = 0,
        warm: bool = True,
        **about: Any,
    ) -> Comparison:
        """Warm each contestant up, then measure each in turn, each round in the other order.

        What drifts during the run, as the size of tables or the disk's speed, is shared alike so.
        One that fails is reported with its reason and takes no further part.
        """
        comparison = Comparison(
            self.case, title, unit, reference, seconds=self.form.seconds, **about
        )
        comparison.failures |= self.absent
        warm = warm and self.form.window > 0
        rounds = rounds or self.form.rounds
        task = self.progress.add_task("", total=(rounds + warm) * len(measures))
        for step in range(rounds + warm):
            for name in list(measures)[:: -1 if step % 2 else 1]:
                measure = measures[name]
                self.progress.update(task, description=f"{self.case}: {title}: {name}")
                if name not in comparison.failures:
                    try:
                        if warm and not step:
                            comparison.warm_ups[name] = warm_up(
                                measure, self.form, jvm=name in peers.JVMS
                            )
                        else:
                            outcome = measure(self.form.seconds)
                            comparison.add(name, outcome.rate, outcome.details)
                    except TROUBLE as error:
                        comparison.failures[name] = machine.reason(error)
                self.progress.advance(task)
        self.progress.remove_task(task)
        self._record(comparison)
        return comparison

    def derive(
        self, source: Comparison, detail: str, title: str, unit: str, reference: str, **about: Any
    ) -> None:
        """Compare by another number that was measured with a comparison; less is better."""
        derived = Comparison(
            self.case, title, unit, reference, less_is_better=True, seconds=source.seconds, **about
        )
        derived.warm_ups = source.warm_ups
        for name, rounds in source.details.items():
            if all(detail in found for found in rounds):
                derived.values[name] = [found[detail] for found in rounds]
        self._record(derived)

    def _record(self, comparison: Comparison) -> None:
        self.comparisons.append(comparison)
        self.show(comparison)

    def cycles(
        self,
        broker: Broker,
        shape: Shape,
        queue: str = "",
        *,
        number: int = 1,
        whole: bool = True,
        **attributes: str,
    ) -> Measure:
        """Return a measure of life cycles over HTTP, on fresh queues in turn or a given one."""

        def loaded(urls: Sequence[str], seconds: int) -> Outcome:
            meter = Meter.start(broker.pid, broker.postmaster)
            outcome = load.wrk([broker.url], urls, shape, seconds, whole=whole)
            details = outcome.details
            used = meter.per_request(details.pop("requests"))
            return Outcome(outcome.rate, details | used)

        def measure(seconds: int) -> Outcome:
            if queue:
                return loaded([queue], seconds)
            with broker.queues(number, fifo=shape.groups > 0, **attributes) as urls:
                return loaded(urls, seconds)

        return measure

    def handshakes(self, broker: Broker, connections: int) -> Measure:
        """Return a measure of connections for one request each."""

        def measure(seconds: int) -> Outcome:
            meter = Meter.start(broker.pid, broker.postmaster)
            outcome = load.handshakes(broker.url, connections, seconds)
            used = meter.per_request(outcome.details.pop("requests"))
            return Outcome(outcome.rate, outcome.details | used)

        return measure

    def signed(
        self, broker: Broker, database: str, keys: Sequence[Mapping[str, str]], shape: Shape
    ) -> Measure:
        """Return a measure of sends and receives in turn, signed by keys in turn, on a fresh queue.

        Nothing is deleted: what was received becomes visible again after a second.
        """

        def measure(seconds: int) -> Outcome:
            name = f"signed-{next(_numbers)}"
            databases.create_queue(database, name)
            queue = f"{broker.url}/{ACCOUNT}/{name}"
            lines = wire.signed(broker.url, queue, keys, shape.batch, shape.size)
            meter = Meter.start(broker.pid, broker.postmaster)
            outcome = load.signed_requests(broker.url, lines, shape, seconds)
            used = meter.per_request(outcome.details.pop("requests"))
            return Outcome(outcome.rate, outcome.details | used)

        return measure

    def sql_cycles(
        self,
        database: str,
        shape: Shape,
        *,
        lax: bool = False,
        history: str = "metadata",
        attributes: str = "{}",
    ) -> Measure:
        """Return a measure of life cycles in SQL, every commit durable.

        With `lax`, commits of receives and deletes are not, as nodes do it: after a crash such a
        message is only received again.
        """

        def measure(seconds: int) -> Outcome:
            name = f"sql-{next(_numbers)}"
            queue = databases.create_queue(database, name, history, attributes)
            return load.pgbench(
                as_node(database),
                "skipmq.sql",
                lambda: databases.waiting(database, queue),
                shape,
                seconds,
                queue=str(queue),
                lax="off" if lax else "on",
            )

        return measure

    def pgmq_cycles(self, database: str, shape: Shape) -> Measure:
        return lambda seconds: load.pgbench(
            database,
            "pgmq.sql",
            lambda: databases.waiting_in_pgmq(database),
            shape,
            seconds,
            queue=databases.PGMQ_QUEUE,
        )
