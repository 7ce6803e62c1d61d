"""The cases of throughput and of the processor time that it takes."""

import time
from contextlib import ExitStack
from dataclasses import replace

from bench import databases, load, peers
from bench.load import Shape
from bench.peers import (
    BEFORE,
    ELASTICMQ,
    ELASTICMQ_PERSISTENT,
    EMPTY,
    MOTO,
    SKIPMQ_NAME,
)
from bench.record import Pair
from bench.run import PGMQ, SQL, Measure, Run
from local_cluster.certificates import Authority
from support.certificates import Files

_RATE = "messages/s"
# By batch and connections, bodies of 256 bytes: against ElasticMQ in memory, and persistent.
_GOALS = {(1, 64): (1, 1.5), (10, 64): (1, 2.5), (1, 16): (0.6, 1), (10, 16): (0.7, 1.7)}
_FIFO_GOALS = {1000: 0.7, 10: 0.6}
# By batch: the node's processor time with signatures and rights against that without.
_SIGNATURE_GOALS = {1: 1.2, 10: 1.12}
# By batch and connections: the node's processor time against the empty handler's; its context
# switches; PostgreSQL's microseconds. Each of a request.
_PROCESSOR = {
    (1, 64): (2.5, {SKIPMQ_NAME: 3}, {SKIPMQ_NAME: 45}),
    (10, 64): (5, {SKIPMQ_NAME: 3}, {}),
    (1, 16): (None, {}, {SKIPMQ_NAME: 90}),
}


def life_cycle(run: Run) -> None:
    """Send, receive and delete, against the peers that speak SQS and against SQL alone."""
    with run.brokers() as brokers, ExitStack() as stack:
        absent = dict(run.absent)
        sql = run.database(stack) if run.wants(SQL) else ""
        pgmq_database = ""
        if run.wants(PGMQ):
            with run.noting(PGMQ):
                pgmq_database = stack.enter_context(databases.with_pgmq(run.databases))
        for shape in _shapes(run):
            measures = {name: run.cycles(broker, shape) for name, broker in brokers.items()}
            # What does not depend on connections is measured with 64 of them, and moto there alone.
            main = shape == Shape(shape.batch)
            run.absent = absent if main else {k: v for k, v in absent.items() if k != MOTO}
            if not main:
                measures.pop(MOTO, None)
            if main and sql:
                measures[SQL] = run.sql_cycles(sql, shape, lax=True)
            if main and pgmq_database:
                measures[PGMQ] = run.pgmq_cycles(pgmq_database, shape)
            run.compare(str(shape), _RATE, measures, SKIPMQ_NAME, pairs=_pairs(shape))


def _shapes(run: Run) -> list[Shape]:
    connections, bodies = run.form.sizes["connections"], run.form.sizes["bodies"]
    return [
        *(Shape(batch, connections=number) for number in connections for batch in (1, 10)),
        *(Shape(batch, size) for size in bodies for batch in (1, 10)),
    ]


def _pairs(shape: Shape) -> list[Pair]:
    key = (shape.batch, shape.connections)
    memory, persistent = _GOALS.get(key, (None, None)) if shape.size == 256 else (None, None)
    ten = shape == Shape()
    return [
        Pair(SKIPMQ_NAME, ELASTICMQ, memory),
        Pair(SKIPMQ_NAME, ELASTICMQ_PERSISTENT, persistent),
        Pair(SKIPMQ_NAME, SQL, 0.8 if ten else None),
        Pair(SKIPMQ_NAME, PGMQ, 1.5 if ten else None),
        Pair(SKIPMQ_NAME, MOTO),
        Pair(SKIPMQ_NAME, BEFORE),
    ]


def processor(run: Run) -> None:
    """What a request costs a node of one worker, against a handler that does nothing."""
    run.absent = {}
    with ExitStack() as stack:
        node = stack.enter_context(peers.skipmq(run.database(stack), workers=1))
        empty = stack.enter_context(peers.empty_handler(run.folder))
        for (batch, connections), (goal, switches, database) in _PROCESSOR.items():
            shape = Shape(batch, connections=connections)
            measures = {
                SKIPMQ_NAME: _by_processor(run.cycles(node, shape)),
                EMPTY: _by_processor(run.cycles(empty, shape, f"{empty.url}/queue", whole=False)),
            }
            found = run.compare(
                f"the broker's processor time a request, {shape}", "µs", measures, EMPTY,
                less_is_better=True, pairs=[Pair(SKIPMQ_NAME, EMPTY, goal)],
            )  # fmt: skip
            run.derive(
                found,
                "switches",
                f"context switches a request, {shape}",
                "",
                EMPTY,
                limits=switches,
            )
            title = f"PostgreSQL's processor time a request, {shape}"
            run.derive(found, "database_us", title, "µs", SKIPMQ_NAME, limits=database)


def signatures(run: Run) -> None:
    """What it costs a node of one worker to check signatures and rights, by the same requests."""
    run.absent = {}
    signed = f"{SKIPMQ_NAME}, signed"
    with ExitStack() as stack:
        on, off = run.database(stack), run.database(stack)
        keys = peers.keys(on, 1)
        nodes = {
            SKIPMQ_NAME: (off, stack.enter_context(peers.skipmq(off, workers=1))),
            signed: (on, stack.enter_context(peers.skipmq(on, workers=1, signed=True))),
        }
        for batch, goal in _SIGNATURE_GOALS.items():
            measures = {
                name: _by_processor(run.signed(node, database, keys, Shape(batch)))
                for name, (database, node) in nodes.items()
            }
            run.compare(
                f"the broker's processor time a request, batch {batch}", "µs", measures,
                SKIPMQ_NAME, less_is_better=True, pairs=[Pair(signed, SKIPMQ_NAME, goal)],
            )  # fmt: skip


def tls(run: Run) -> None:
    """What TLS costs a node of one worker, a request and a connection."""
    run.absent = {}
    secure = f"{SKIPMQ_NAME}, TLS"
    with ExitStack() as stack:
        files = Files(run.folder, Authority())
        files.ca.write_bytes(files.authority.pem)
        files.put(files.issue())
        nodes = {
            SKIPMQ_NAME: stack.enter_context(peers.skipmq(run.database(stack), workers=1)),
            secure: stack.enter_context(peers.skipmq(run.database(stack), workers=1, files=files)),
        }
        for batch in (1, 10):
            measures = {
                name: _by_processor(run.cycles(node, Shape(batch))) for name, node in nodes.items()
            }
            run.compare(
                f"the broker's processor time a request, batch {batch}", "µs", measures,
                SKIPMQ_NAME, less_is_better=True, pairs=[Pair(secure, SKIPMQ_NAME)],
            )  # fmt: skip
        run.compare(
            "the broker's processor time a connection of one request", "µs",
            {name: _by_processor(run.handshakes(node, 16)) for name, node in nodes.items()},
            SKIPMQ_NAME, less_is_better=True, pairs=[Pair(secure, SKIPMQ_NAME)],
        )  # fmt: skip


def _by_processor(measure: Measure) -> Measure:
    """Compare a measure by the processor time a request instead of by its rate."""

    def measured(seconds: int) -> load.Outcome:
        details = measure(seconds).details
        return load.Outcome(details["broker_us"], details)

    return measured


def fifo(run: Run) -> None:
    """FIFO queues against a standard one, and against the peers' FIFO queues."""
    standard = Shape()
    with run.brokers(SKIPMQ_NAME, ELASTICMQ, ELASTICMQ_PERSISTENT) as brokers:
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
                pairs=[
                    Pair(SKIPMQ_NAME, ELASTICMQ, 1 if groups == 1000 else None),
                    Pair(SKIPMQ_NAME, ELASTICMQ_PERSISTENT),
                ],
            )


def pgmq(run: Run) -> None:
    """Our SQL functions against PGMQ's on the same server; then with a snapshot held open."""
    held, held_pgmq = f"{SQL}, snapshot", f"{PGMQ}, snapshot"
    lax = f"{SQL}, as nodes call them"
    with ExitStack() as stack:
        plain, old = run.database(stack), run.database(stack)
        measures = {
            SQL: run.sql_cycles(plain, Shape()),
            f"{SQL}, no history": run.sql_cycles(plain, Shape(), history="off"),
            lax: run.sql_cycles(plain, Shape(), lax=True),
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
        pairs = [Pair(lax, PGMQ, 2), Pair(SQL, PGMQ)]
        run.compare("SQL against SQL", _RATE, measures, PGMQ, pairs=pairs)
        # Each round leaves more that cannot be vacuumed: the last says what a long snapshot costs.
        run.compare(
            "SQL against SQL, snapshot held open",
            _RATE,
            while_held,
            PGMQ,
            rounds=run.form.sizes["held_rounds"],
            pairs=[Pair(held, held_pgmq, 10), Pair(held, SQL)],
        )


def flow(run: Run) -> None:
    """Our SQL functions on a queue without limits, also those of before, and with each of them."""
    none = f"{SQL}, no limits"
    with ExitStack() as stack:
        run.absent = {}
        databases_of = {
            name: run.database(stack, program) for name, program in run.programs().items()
        }
        ours = databases_of.pop(SKIPMQ_NAME)
        measures = {
            before: run.sql_cycles(url, Shape(), lax=True) for before, url in databases_of.items()
        }
        for name, attributes in {
            none: "{}",
            "MaximumInFlight": '{"MaximumInFlight": "1000"}',
            "MaximumReceiveRate": '{"MaximumReceiveRate": "1000000"}',
            "PriorityMode": '{"PriorityMode": "strict"}',
        }.items():
            measures[name] = run.sql_cycles(ours, Shape(), lax=True, attributes=attributes)
        pairs = [Pair(none, BEFORE, 0.98)] if BEFORE in measures else []
        run.compare("SQL, limits of a queue", _RATE, measures, none, pairs=pairs)


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
            run.fill(database, queue, messages, groups)
            shape = Shape(groups=groups)
            run.compare(
                title,
                _RATE,
                {"empty": run.cycles(empty, shape), full: run.cycles(node, shape, queue)},
                "empty",
                pairs=[Pair(full, "empty", 0.95)],
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
        pairs = [Pair("snapshot held", "no snapshot", 0.95)]
        run.compare("while it is held", _RATE, measures, "no snapshot", pairs=pairs)
        rest = run.form.sizes["minutes"] * 60 - (time.monotonic() - began)
        rounds = max(1, round(rest / (2 * run.form.seconds)))
        run.compare(
            "ageing", _RATE, measures, "no snapshot", rounds=rounds, warm=False, pairs=pairs
        )
        held = f"held for {(time.monotonic() - began) / 60:.1f} minutes"
        run.compare(held, _RATE, measures, "no snapshot", warm=False, pairs=pairs)


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
            shape = Shape(batch)
            measures = {
                name: run.cycles(node, shape, ReplicationMode=mode) for mode, name in names.items()
            }
            title = f"ReplicationMode, batch {batch}"
            run.compare(title, _RATE, measures, names["none"])
