"""The cases of the benchmark; `CASES` lists them with their quick and full forms."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from bench import databases, load, peers, waiting
from bench.load import Shape
from bench.peers import ELASTICMQ, ELASTICMQ_PERSISTENT, MOTO, SKIPMQ_NAME
from bench.record import Pair
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
            pairs = [
                Pair(SKIPMQ_NAME, SQL, 0.6 if shape == Shape() else None),
                Pair(SKIPMQ_NAME, ELASTICMQ, 1),
                Pair(SKIPMQ_NAME, ELASTICMQ_PERSISTENT, 3),
                Pair(SKIPMQ_NAME, MOTO),
            ]
            run.compare(str(shape), _RATE, measures, SKIPMQ_NAME, pairs=pairs)


def fifo(run: Run) -> None:
    """FIFO queues against a standard one, and against the peers' FIFO queues."""
    standard = Shape()
    with run.brokers() as brokers:
        if node := brokers.get(SKIPMQ_NAME):
            measures = {"standard": run.cycles(node, standard)}
            for groups in _FIFO_GOALS:
                shape = replace(standard, groups=groups)
                measures[f"FIFO, {groups:,} groups"] = run.cycles(node, shape)
            pairs = [
                Pair(f"FIFO, {groups:,} groups", "standard", goal)
                for groups, goal in _FIFO_GOALS.items()
            ]
            run.compare("FIFO and standard", _RATE, measures, "standard", pairs=pairs)
        for groups in _FIFO_GOALS:
            shape = replace(standard, groups=groups)
            run.compare(
                f"FIFO, {groups:,} groups",
                _RATE,
                {name: run.cycles(broker, shape) for name, broker in brokers.items()},
                SKIPMQ_NAME,
                pairs=[Pair(SKIPMQ_NAME, n) for n in (ELASTICMQ, ELASTICMQ_PERSISTENT, MOTO)],
            )


def pgmq(run: Run) -> None:
    """Our SQL functions against PGMQ's on the same server; then with a snapshot held open."""
    held, held_pgmq = f"{SQL}, snapshot", f"{PGMQ}, snapshot"
    with ExitStack() as stack:
        plain, old = run.database(stack), run.database(stack)
        measures = {
            SQL: run.sql_cycles(plain, Shape()),
            f"{SQL}, no history": run.sql_cycles(plain, Shape(), history="off"),
            f"{SQL}, as nodes call them": run.sql_cycles(plain, Shape(), lax=True),
        }
        while_held = {SQL: measures[SQL], held: run.sql_cycles(old, Shape())}
        run.absent = {}
        with run.noting(PGMQ):
            theirs, theirs_old = (
                stack.enter_context(databases.with_pgmq(run.databases)) for _ in range(2)
            )
            measures[PGMQ] = while_held[PGMQ] = run.pgmq_cycles(theirs, Shape())
            while_held[held_pgmq] = run.pgmq_cycles(theirs_old, Shape())
            stack.enter_context(databases.snapshot(theirs_old))
        stack.enter_context(databases.snapshot(old))
        run.compare("SQL against SQL", _RATE, measures, PGMQ, pairs=[Pair(SQL, PGMQ, 1.4)])
        # Each round leaves more that cannot be vacuumed: the last says what a long snapshot costs.
        run.compare(
            "SQL against SQL, snapshot held open",
            _RATE,
            while_held,
            PGMQ,
            rounds=run.form.sizes["held_rounds"],
            pairs=[Pair(held, held_pgmq, 10), Pair(held, SQL, 0.8)],
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
                pairs=[Pair(full, "empty", 0.9)],
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
        pairs = [Pair("snapshot held", "no snapshot", 0.8)]
        run.compare("while it is held", _RATE, measures, "no snapshot", pairs=pairs)
        rest = run.form.sizes["minutes"] * 60 - (time.monotonic() - began)
        rounds = max(1, round(rest / (2 * run.form.seconds)))
        run.compare(
            "ageing",
            _RATE,
            measures,
            "no snapshot",
            rounds=rounds,
            warm=False,
            pairs=pairs,
        )
        run.compare(
            f"held for {(time.monotonic() - began) / 60:.1f} minutes",
            _RATE,
            measures,
            "no snapshot",
            warm=False,
            pairs=pairs,
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


def durability(run: Run) -> None:
    """Queues whose sends wait for a standby, against one whose sends wait for no other server."""
    run.absent = {}
    names = {"any": "any: one standby", "none": "none"}
    with (
        databases.replicated(run.folder) as cluster,
        databases.migrated(cluster) as database,
        peers.skipmq(database) as node,
    ):
        for batch in (1, 10):
            measures = {
                name: run.cycles(node, Shape(batch), ReplicationMode=mode)
                for mode, name in names.items()
            }
            title = f"ReplicationMode, batch {batch}"
            run.compare(title, _RATE, measures, names["none"])


@dataclass(frozen=True, slots=True)
class Case:
    measure: Callable[[Run], None]
    quick: Form
    full: Form


CASES = {
    "life-cycle": Case(
        life_cycle,
        quick=Form(1, 2, 0, {"shapes": [Shape(1, 256), Shape(10, 256), Shape(10, 65536)]}),
        full=Form(7, 10, 10, {"shapes": _SHAPES}),
    ),
    "fifo": Case(fifo, quick=Form(1, 2, 0), full=Form(7, 10, 5)),
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
        quick=Form(1, 2, 1, {"polls": 2000, "rate": 100}),
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
    "durability": Case(durability, quick=Form(2, 2), full=Form(7, 10, 3)),
    "start-up": Case(waiting.start_up, quick=Form(1, 1), full=Form(5, 1)),
}
