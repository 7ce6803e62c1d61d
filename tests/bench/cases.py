"""The cases of the benchmark; `CASES` lists them with their quick and full forms."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from bench import databases, load, peers, waiting
from bench.load import Shape
from bench.peers import ELASTICMQ, ELASTICMQ_PERSISTENT, MOTO, SKIPMQ_NAME
from bench.record import Goal
from bench.run import PGMQ, SQL, Form, Measure, Run

_SHAPES = [Shape(batch, size) for batch in (1, 10) for size in (256, 4096, 65536)]
_FIFO_GOALS = {1000: 0.5, 10: 0.3}
_RATE = "messages/s"


def life_cycle(run: Run) -> None:
    """Send, receive and delete, against every peer that speaks SQS and against our SQL alone."""
    with run.brokers() as brokers, ExitStack() as stack:
        database = run.database(stack) if run.wants(SQL) else ""
        for shape in run.form.sizes["shapes"]:
            measures = {name: run.cycles(broker, shape) for name, broker in brokers.items()}
            if database:
                measures[SQL] = run.sql_cycles(database, shape, lax=True)
            goals = [
                Goal(SKIPMQ_NAME, ELASTICMQ, 1),
                Goal(SKIPMQ_NAME, ELASTICMQ_PERSISTENT, 3),
                Goal(SKIPMQ_NAME, MOTO, 1),
            ]
            if shape == Shape():
                goals.insert(0, Goal(SKIPMQ_NAME, SQL, 0.6))
            run.compare(str(shape), _RATE, measures, SKIPMQ_NAME, goals=goals)


def fifo(run: Run) -> None:
    """FIFO queues against a standard one, and against the peers' FIFO queues."""
    standard = Shape()
    with run.brokers() as brokers:
        if node := brokers.get(SKIPMQ_NAME):
            measures = {"standard": run.cycles(node, standard)}
            for groups in _FIFO_GOALS:
                shape = replace(standard, groups=groups)
                measures[f"FIFO, {groups:,} groups"] = run.cycles(node, shape)
            goals = [
                Goal(f"FIFO, {groups:,} groups", "standard", goal)
                for groups, goal in _FIFO_GOALS.items()
            ]
            run.compare("FIFO and standard", _RATE, measures, "standard", goals=goals)
        for groups in _FIFO_GOALS:
            shape = replace(standard, groups=groups)
            run.compare(
                f"FIFO, {groups:,} groups",
                _RATE,
                {name: run.cycles(broker, shape) for name, broker in brokers.items()},
                SKIPMQ_NAME,
                goals=[Goal(SKIPMQ_NAME, name, 1) for name in (ELASTICMQ, ELASTICMQ_PERSISTENT)],
            )


def pgmq(run: Run) -> None:
    """Our SQL functions against PGMQ's, every commit durable; then with a snapshot held open."""
    held = {SQL: f"{SQL}, snapshot", PGMQ: f"{PGMQ}, snapshot"}
    run.absent = {}
    with ExitStack() as stack:
        urls: dict[str, str] = {}
        for name in [*held, *held.values()]:
            with run.noting(name):
                urls[name] = (
                    run.database(stack)
                    if name in (SQL, held[SQL])
                    else stack.enter_context(databases.with_pgmq(run.databases))
                )
        measures: dict[str, Measure] = {
            name: run.sql_cycles(url, Shape(), lax=False)
            if name in (SQL, held[SQL])
            else run.pgmq_cycles(url, Shape())
            for name, url in urls.items()
        }
        plain = {name: measures[name] for name in held if name in measures}
        run.compare("SQL against SQL", _RATE, plain, PGMQ, goals=[Goal(SQL, PGMQ, 1.4)])
        for name in held.values():
            if name in urls:
                stack.enter_context(databases.snapshot(urls[name]))
        # Each round leaves more that cannot be vacuumed: the last says what a long snapshot costs.
        run.compare(
            "SQL against SQL, snapshot held open",
            _RATE,
            measures,
            PGMQ,
            rounds=run.form.sizes["held_rounds"],
            goals=[Goal(held[SQL], held[PGMQ], 10), Goal(held[SQL], SQL, 0.8)],
        )


def backlog(run: Run) -> None:
    """Life cycles with many messages waiting, on a database of their own, against an empty one."""
    for kind, groups in (("standard", 0), ("FIFO", 1000)):
        messages = run.form.sizes[kind]
        full = f"{messages:,} waiting"
        run.absent = {}
        with ExitStack() as stack:
            database = run.database(stack)
            empty = stack.enter_context(peers.skipmq(run.database(stack)))
            node = stack.enter_context(peers.skipmq(database))
            queue = node.queue(fifo=groups > 0)
            title = f"{kind} backlog"
            task = run.progress.add_task(f"{run.case}: filling: {full}", total=messages)
            databases.fill(
                database, queue, messages, groups, lambda n, t=task: run.progress.advance(t, n)
            )
            run.progress.remove_task(task)
            shape = Shape(groups=groups)
            run.compare(
                title,
                _RATE,
                {"empty": run.cycles(empty, shape), full: run.cycles(node, shape, queue)},
                "empty",
                goals=[Goal(full, "empty", 0.9)],
            )


def snapshot(run: Run) -> None:
    """Life cycles while a snapshot is held open, on a database of their own, against without."""
    run.absent = {}
    with ExitStack() as stack:
        database = run.database(stack)
        free = stack.enter_context(peers.skipmq(run.database(stack)))
        node = stack.enter_context(peers.skipmq(database))
        measures = {
            "no snapshot": run.cycles(free, Shape()),
            "snapshot held": run.cycles(node, Shape()),
        }
        stack.enter_context(databases.snapshot(database))
        began = time.monotonic()
        goals = [Goal("snapshot held", "no snapshot", 0.8)]
        run.compare("while it is held", _RATE, measures, "no snapshot", goals=goals)
        rest = run.form.sizes["minutes"] * 60 - (time.monotonic() - began)
        rounds = max(1, round(rest / (2 * run.form.seconds)))
        run.compare(
            "ageing",
            _RATE,
            measures,
            "no snapshot",
            rounds=rounds,
            warm=False,
            goals=goals,
        )
        run.compare(
            f"held for {(time.monotonic() - began) / 60:.0f} minutes",
            _RATE,
            measures,
            "no snapshot",
            warm=False,
            goals=goals,
        )


def nodes(run: Run) -> None:
    """The same load spread over one, two and four nodes of one worker on one database."""
    run.absent = {}
    with ExitStack() as stack:
        database = run.database(stack)
        urls = [stack.enter_context(peers.skipmq(database, workers=1)).url for _ in range(4)]
        queue = databases.create_queue(database, "shared") and f"{urls[0]}/000000000000/shared"

        def spread(number: int) -> Measure:
            return lambda seconds: load.wrk(urls[:number], [queue], Shape(), seconds)

        names = {1: "1 node", 2: "2 nodes", 4: "4 nodes"}
        measures = {name: spread(number) for number, name in names.items()}
        run.compare("nodes of one worker", _RATE, measures, "1 node")


def queues(run: Run) -> None:
    """The same load on a thousand queues in turn, against one queue."""
    number = run.form.sizes["queues"]
    with run.brokers(SKIPMQ_NAME, ELASTICMQ) as brokers:
        for name, broker in brokers.items():
            many = [broker.queue() for _ in range(number)]

            def spread(chosen: list[str], url: str = broker.url) -> Measure:
                return lambda seconds: load.wrk([url], chosen, Shape(), seconds)

            run.compare(
                f"{name}: queues",
                _RATE,
                {"1 queue": spread(many[:1]), f"{number:,} queues": spread(many)},
                "1 queue",
            )


@dataclass(frozen=True, slots=True)
class Case:
    measure: Callable[[Run], None]
    quick: Form
    full: Form


CASES = {
    "life-cycle": Case(
        life_cycle,
        quick=Form(1, 2, 1, {"shapes": [Shape(1, 256), Shape(10, 256), Shape(10, 65536)]}),
        full=Form(7, 10, 10, {"shapes": _SHAPES}),
    ),
    "fifo": Case(fifo, quick=Form(2, 1), full=Form(7, 10, 5)),
    "pgmq": Case(
        pgmq,
        quick=Form(3, 1, 1, {"held_rounds": 4}),
        full=Form(7, 10, 3, {"held_rounds": 7}),
    ),
    "backlog": Case(
        backlog,
        quick=Form(3, 1, 1, {"standard": 200_000, "FIFO": 50_000}),
        full=Form(7, 10, 3, {"standard": 10_000_000, "FIFO": 1_000_000}),
    ),
    "snapshot": Case(
        snapshot,
        quick=Form(2, 2, 1, {"minutes": 0.4}),
        full=Form(5, 10, 3, {"minutes": 10}),
    ),
    "idle-polls": Case(
        waiting.idle_polls,
        quick=Form(1, 3, 1, {"polls": 2000, "rate": 100}),
        full=Form(5, 20, 3, {"polls": 2000, "rate": 200}),
    ),
    "wake-up": Case(
        waiting.wake_up,
        quick=Form(1, 1, 1, {"samples": 20}),
        full=Form(5, 1, 1, {"samples": 100}),
    ),
    "nodes": Case(nodes, quick=Form(3, 2), full=Form(7, 10, 3)),
    "queues": Case(
        queues,
        quick=Form(3, 1, 1, {"queues": 1000}),
        full=Form(7, 10, 5, {"queues": 1000}),
    ),
    "start-up": Case(waiting.start_up, quick=Form(1, 1), full=Form(5, 1)),
}
