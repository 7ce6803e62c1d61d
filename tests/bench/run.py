"""One run of the benchmark: what its cases share, and how contestants are measured in turn."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from rich.progress import Progress

from bench import databases, load, peers, programs
from bench.load import Failed, Outcome, Shape
from bench.peers import Broker
from bench.programs import Unavailable
from bench.record import Comparison
from bench.wire import Refused
from support.postgres import Databases, as_node

SQL, PGMQ = "SQL functions", "PGMQ"
_JVM_SECONDS = 6
# What --peer calls them.
PEERS = {
    "skipmq": peers.SKIPMQ_NAME,
    "sql": SQL,
    "pgmq": PGMQ,
    "elasticmq": peers.ELASTICMQ,
    "elasticmq-persistent": peers.ELASTICMQ_PERSISTENT,
    "moto": peers.MOTO,
}
Measure: TypeAlias = Callable[[int], Outcome]
TROUBLE = (Failed, Unavailable, Refused, OSError)


@dataclass(frozen=True, slots=True)
class Form:
    """How long a case is: rounds, seconds to measure and to warm up, and its own sizes."""

    rounds: int
    seconds: int
    warm: int = 1
    sizes: Mapping[str, Any] = field(default_factory=dict)


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
    _queues: int = 0

    def wants(self, name: str) -> bool:
        return name in self.wanted

    @contextmanager
    def brokers(self, *names: str, warm: bool = True) -> Iterator[dict[str, Broker]]:
        """Run those of the brokers that are wanted here; who cannot start is noted as absent."""
        self.absent = {}
        starts: dict[str, Callable[[ExitStack], Broker]] = {
            peers.SKIPMQ_NAME: lambda s: s.enter_context(peers.skipmq(self.database(s))),
            peers.ELASTICMQ: lambda s: s.enter_context(peers.elasticmq(self.folder)),
            peers.ELASTICMQ_PERSISTENT: lambda s: s.enter_context(
                peers.elasticmq(self.folder, persistent=True)
            ),
            peers.MOTO: lambda s: s.enter_context(peers.moto(self.folder)),
        }
        with ExitStack() as stack:
            found = {}
            for name in names or starts:
                if self.wants(name):
                    with self.noting(name):
                        found[name] = starts[name](stack)
                        if warm:
                            self._warm(found[name])
            yield found

    def _warm(self, broker: Broker) -> None:
        """Let a broker run for a while: a JVM has to compile before it shows what it can."""
        jvm = broker.name in (peers.ELASTICMQ, peers.ELASTICMQ_PERSISTENT)
        with suppress(Failed):
            load.wrk([broker.url], [broker.queue()], Shape(), _JVM_SECONDS if jvm else 1)

    def database(self, stack: ExitStack) -> str:
        return stack.enter_context(databases.migrated(self.databases))

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Note why a contestant cannot take part, instead of ending the run."""
        try:
            yield
        except TROUBLE as error:
            self.absent[name] = programs.reason(error)

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
        """Measure each contestant in turn, round by round, after a warm-up of each.

        One that fails is reported with its reason and takes no further part.
        """
        comparison = Comparison(
            self.case, title, unit, reference, seconds=self.form.seconds, **about
        )
        comparison.failures |= self.absent
        rounds = rounds or self.form.rounds
        warm = warm and self.form.warm > 0
        steps = rounds + (1 if warm else 0)
        task = self.progress.add_task(f"{self.case}: {title}", total=steps * len(measures))
        for step in range(steps):
            for name, measure in measures.items():
                self.progress.update(task, description=f"{self.case}: {title}: {name}")
                if name not in comparison.failures:
                    seconds = self.form.warm if warm and not step else self.form.seconds
                    try:
                        outcome = measure(seconds)
                    except TROUBLE as error:
                        comparison.failures[name] = programs.reason(error)
                    else:
                        if step or not warm:
                            comparison.add(name, outcome.rate, outcome.details)
                self.progress.advance(task)
        self.progress.remove_task(task)
        self.comparisons.append(comparison)
        self.show(comparison)
        return comparison

    def derive(
        self, source: Comparison, detail: str, title: str, unit: str, reference: str, **about: Any
    ) -> None:
        """Compare by another number that was measured along with a comparison; less is better."""
        derived = Comparison(
            self.case, title, unit, reference, less_is_better=True, seconds=source.seconds, **about
        )
        derived.failures |= source.failures
        for name, rounds in source.details.items():
            derived.values[name] = [found[detail] for found in rounds]
        self.comparisons.append(derived)
        self.show(derived)

    def cycles(self, broker: Broker, shape: Shape, queue: str = "", **attributes: str) -> Measure:
        """Return a measure of life cycles over HTTP, on a fresh queue unless one is given."""
        return lambda seconds: load.wrk(
            [broker.url],
            [queue or broker.queue(fifo=shape.groups > 0, **attributes)],
            shape,
            seconds,
        )

    def sql_cycles(
        self, database: str, shape: Shape, *, lax: bool = False, history: str = "metadata"
    ) -> Measure:
        """Return a measure of life cycles in SQL, every commit durable.

        Lax as the nodes are: what a crash could lose of receives and deletes only comes again.
        """

        def measure(seconds: int) -> Outcome:
            self._queues += 1
            queue = databases.create_queue(database, f"sql-{self._queues}", history)
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
