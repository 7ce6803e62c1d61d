"""The cases of the benchmark, each with its quick and its full form."""

from collections.abc import Callable
from dataclasses import dataclass

from bench import bodies, consumers, latency, pages, partitions, spread, suites, throughput, topics
from bench.run import Form, Run, quick


@dataclass(frozen=True, slots=True)
class Case:
    measure: Callable[[Run], None]
    quick: Form
    full: Form


_KINDS = ["standard", "FIFO"]

CASES = {
    "life-cycle": Case(
        throughput.life_cycle,
        quick=quick(1, 2, connections=[64], bodies=[]),
        full=Form(5, 10, sizes={"connections": [64, 16, 256], "bodies": [4096, 65536]}),
    ),
    "processor": Case(throughput.processor, quick=quick(1, 3), full=Form(5, 10)),
    "signatures": Case(throughput.signatures, quick=quick(1, 2), full=Form(5, 10)),
    "tls": Case(throughput.tls, quick=quick(1, 2), full=Form(5, 10)),
    "fifo": Case(throughput.fifo, quick=quick(1, 2), full=Form(5, 10)),
    "pgmq": Case(
        throughput.pgmq,
        quick=quick(3, 1, held_rounds=4),
        full=Form(5, 10, sizes={"held_rounds": 7}),
    ),
    "flow": Case(throughput.flow, quick=quick(1, 2), full=Form(9, 10)),
    "calls": Case(
        latency.calls,
        quick=quick(1, 1, calls=2000),
        full=Form(5, 1, sizes={"calls": 10_000}),
    ),
    "backlog": Case(
        throughput.backlog,
        quick=quick(2, 1, standard=200_000, FIFO=50_000),
        full=Form(5, 10, sizes={"standard": 10_000_000, "FIFO": 1_000_000}),
    ),
    "snapshot": Case(
        throughput.snapshot,
        quick=quick(2, 2, minutes=0.4),
        full=Form(5, 10, sizes={"minutes": 10}),
    ),
    "console": Case(
        pages.console,
        quick=quick(1, 4, standard=50_000),
        full=Form(5, 20, sizes={"standard": 10_000_000}),
    ),
    "idle": Case(latency.idle, quick=quick(1, 2), full=Form(3, 20)),
    "receivers": Case(
        latency.waiting_receivers,
        quick=quick(1, 4, receivers=10_000, rate=100, samples=10),
        full=Form(3, 20, sizes={"receivers": 10_000, "rate": 200, "samples": 100}),
    ),
    "slow-clients": Case(
        latency.slow_clients,
        quick=quick(1, 4, clients=5_000, rate=100),
        # Longer than a body may take.
        full=Form(3, 60, sizes={"clients": 5_000, "rate": 200}),
    ),
    "wake-up": Case(
        latency.wake_up,
        quick=quick(1, 1, samples=15),
        full=Form(5, 1, sizes={"samples": 100}),
    ),
    "one-client": Case(latency.one_client, quick=quick(1, 1), full=Form(5, 10)),
    "consumers": Case(
        consumers.consumers,
        quick=quick(1, 1, jobs=500),
        full=Form(5, 5, most=30, sizes={"jobs": 5_000}),
    ),
    "bodies": Case(bodies.bodies, quick=quick(3, 1), full=Form(7, 1)),
    "nodes": Case(throughput.nodes, quick=quick(2, 2), full=Form(5, 10)),
    "queues": Case(
        spread.queues,
        quick=quick(1, 2, queues=[1, 20, 100], connections=[64], kinds=_KINDS),
        full=Form(
            5, 10, sizes={"queues": [1, 20, 100, 1000], "connections": [64, 16], "kinds": _KINDS}
        ),
    ),
    "senders": Case(
        spread.senders,
        quick=quick(1, 1, connections=[64], users=20),
        full=Form(5, 10, sizes={"connections": [64, 16], "users": 20}),
    ),
    "durability": Case(throughput.durability, quick=quick(2, 2), full=Form(5, 10)),
    "partitions": Case(
        partitions.partitions,
        quick=quick(1, 1, connections=[64, 16, 1], waits=[5]),
        full=Form(5, 10, sizes={"connections": [64, 16, 1], "waits": [5, 25]}),
    ),
    "start-up": Case(latency.start_up, quick=quick(1, 1), full=Form(5, 1)),
    "topics": Case(
        topics.topics,
        quick=quick(3, 3, subscribers=[1, 16, 1000]),
        full=Form(5, 10, sizes={"subscribers": [1, 16, 1000]}),
    ),
    "tests": Case(suites.suites, quick=quick(1, 1), full=Form(5, 1)),
}
