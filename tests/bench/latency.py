"""The cases of latency, memory and idleness."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from bench import clients, databases, load, peers, usage
from bench.clients import Crowd
from bench.load import Failed, Outcome, Shape
from bench.peers import ELASTICMQ, MOTO, SKIPMQ_NAME, Broker
from bench.record import Pair, WarmUp
from bench.run import Measure, Run, warm_up
from support.postgres import as_node

_QUEUES = 100
# Requests of the other clients of a node that has many.
_OTHERS = 1000
# One call each, of one message of 256 bytes, as nodes make it. The variable n is the id of the last
# message that was deleted.
CALLS = {
    "select 1": "select 1;",
    "send": """select skipmq.send_messages(:queue, array[gen_random_uuid()],
      array[repeat('x', 256)], null, null, null, null, null, 'off');""",
    "receive": "select id, receive_count from skipmq.receive_messages(:queue, 1, 600, 'off');",
    "delete": """\\set n :n + 1
      select skipmq.delete_messages(:queue, array[:n]::bigint[], array[1], 'off');""",
}
_LIMITS = {"send": 120, "receive": 180, "delete": 120}


def idle(run: Run) -> None:
    """The memory of a broker that has just started."""

    def measure(broker: Broker) -> Measure:
        def idled(seconds: int) -> Outcome:
            used = usage.processor_seconds(broker.pid)
            time.sleep(seconds)
            used = usage.processor_seconds(broker.pid) - used
            memory, resident = usage.memory(broker.pid)
            return Outcome(memory, {"resident_mb": resident, "idle_percent": 100 * used / seconds})

        return idled

    with run.brokers(SKIPMQ_NAME, ELASTICMQ, MOTO) as brokers:
        run.compare(
            "default settings", "MB", {name: measure(b) for name, b in brokers.items()},
            SKIPMQ_NAME, warm=False, less_is_better=True, limits={SKIPMQ_NAME: 110},
        )  # fmt: skip


def waiting_receivers(run: Run) -> None:
    """Ten thousand receivers that wait on one worker: wake-ups, sends, memory, processor."""
    number, rate, samples = (run.form.sizes[name] for name in ("receivers", "rate", "samples"))

    def measure(node: Broker, seconds: int) -> Outcome:
        used, began = usage.processor_seconds(node.pid), time.monotonic()
        time.sleep(seconds)
        used = usage.processor_seconds(node.pid) - used
        details = {"idle_percent": 100 * used / (time.monotonic() - began)}
        details["memory_mb"], details["resident_mb"] = usage.memory(node.pid)
        wake_ups = clients.wake_ups(node.url, node.url, node.queue(), samples)
        sends = _sends(node, rate, seconds)
        details |= {"wake_up_p99_ms": clients.percentile(wake_ups, 99)}
        details["sends_p99_ms"] = clients.percentile(sends, 99)
        return Outcome(clients.percentile(wake_ups, 50), details)

    def alone(seconds: int) -> Outcome:
        with _one_worker(run, number) as node:
            return measure(node, seconds)

    def crowded(seconds: int) -> Outcome:
        with _one_worker(run, number) as node:
            queues = [node.queue() for _ in range(_QUEUES)]
            with Crowd("wait", node.url, number, *queues):
                return measure(node, seconds)

    none, many = "no receivers", f"{number:,} receivers"
    pairs = [Pair(many, none)]
    found = run.compare(
        "p50 from a send to a waiting receiver", "ms", {none: alone, many: crowded}, none,
        warm=False, less_is_better=True, pairs=pairs,
    )  # fmt: skip
    run.derive(
        found, "sends_p99_ms", f"p99 of {rate} sends a second", "ms", none,
        pairs=[Pair(many, none, 1.5)],
    )  # fmt: skip
    run.derive(found, "memory_mb", "memory", "MB", none, limits={many: 200})
    run.derive(
        found, "idle_percent", "processor, each receiver asking again every 20 s", "% of a core",
        none,
    )  # fmt: skip


def slow_clients(run: Run) -> None:
    """What others notice of clients that send one byte of a body, or half of the headers."""
    number, rate = run.form.sizes["clients"], run.form.sizes["rate"]
    half = number // 10

    def alone(seconds: int) -> Outcome:
        with _one_worker(run, number) as node:
            return _p99(node, rate, seconds)

    def crowded(seconds: int) -> Outcome:
        with _one_worker(run, number) as node:
            with (
                Crowd("stall", node.url, number) as crowd,
                Crowd("half-open", node.url, half),
            ):
                outcome = _p99(node, rate, seconds)
            return Outcome(outcome.rate, outcome.details | {"cut_off": float(crowd.ended)})

    none, many = "no slow clients", f"{number:,} slow clients, {half:,} half open"
    run.compare(
        f"p99 of {rate} sends a second", "ms", {none: alone, many: crowded}, none,
        warm=False, less_is_better=True, pairs=[Pair(many, none, 1.5)],
    )  # fmt: skip


@contextlib.contextmanager
def _one_worker(run: Run, number: int) -> Iterator[Broker]:
    """Run a fresh node of one worker that has room for so many clients and some."""
    clients.raise_file_limit(number + _OTHERS)
    run.absent = {}
    with ExitStack() as stack:
        database = run.database(stack)
        node = peers.skipmq(database, workers=1, requests=number + _OTHERS)
        yield stack.enter_context(node)


def _sends(node: Broker, rate: int, seconds: int) -> list[float]:
    queue = node.queue()
    clients.sends(node.url, queue, rate, 1)
    return clients.sends(node.url, queue, rate, seconds)


def _p99(node: Broker, rate: int, seconds: int) -> Outcome:
    samples = _sends(node, rate, seconds)
    memory, _ = usage.memory(node.pid)
    return _percentiles(samples, 99, memory_mb=memory)


def wake_up(run: Run) -> None:
    """From a send to the receiver that waits, on the same node and on another one.

    Of one worker each: a node of several is several nodes in this.
    """
    samples = run.form.sizes["samples"]
    same, other = f"{SKIPMQ_NAME}, same node", f"{SKIPMQ_NAME}, other node"

    def measure(sender: Broker, receiver: Broker) -> Measure:
        queue = receiver.queue()
        return lambda _: _percentiles(
            clients.wake_ups(sender.url, receiver.url, queue, samples), 50
        )

    with run.brokers(ELASTICMQ) as brokers, ExitStack() as stack:
        measures: dict[str, Measure] = {}
        if run.wants(SKIPMQ_NAME):
            database = run.database(stack)
            one = stack.enter_context(peers.skipmq(database, workers=1))
            two = stack.enter_context(peers.skipmq(database, workers=1))
            measures = {same: measure(one, one), other: measure(two, one)}
        warm_ups: dict[str, WarmUp] = {}
        for name, broker in brokers.items():
            # Wake-ups are too few to warm a JVM: it is put under load.
            warm_ups[name] = warm_up(run.cycles(broker, Shape(1)), run.form, jvm=True)
            measures[name] = measure(broker, broker)
        run.compare(
            "p50 from send to receiver", "ms", measures, same,
            warm=False, warm_ups=warm_ups, less_is_better=True, limits={same: 2, other: 5},
        )  # fmt: skip


def one_client(run: Run) -> None:
    """One client whose requests come one after another: a send, a receive, a delete, again."""

    def measure(broker: Broker) -> Measure:
        def lives(seconds: float) -> Outcome:
            samples = clients.one_after_another(broker.url, queue, seconds)
            details = {
                f"{kind}_p{percent}_ms": clients.percentile(found, percent)
                for kind, found in samples.items()
                for percent in (50, 99)
            }
            return Outcome(details["send_p50_ms"], details)

        queue = broker.queue()
        return lives

    with run.brokers(SKIPMQ_NAME, ELASTICMQ) as brokers:
        warm_ups = {
            name: warm_up(run.cycles(broker, Shape(1)), run.form, jvm=name == ELASTICMQ)
            for name, broker in brokers.items()
        }
        found = run.compare(
            "p50 of a send", "ms", {name: measure(b) for name, b in brokers.items()},
            SKIPMQ_NAME, warm=False, warm_ups=warm_ups, less_is_better=True,
            limits={SKIPMQ_NAME: 0.4},
        )  # fmt: skip
        for kind, limit in (("receive", 0.33), ("delete", 0.3)):
            run.derive(
                found, f"{kind}_p50_ms", f"p50 of a {kind}", "ms", SKIPMQ_NAME,
                limits={SKIPMQ_NAME: limit},
            )  # fmt: skip


def calls(run: Run) -> None:
    """One SQL call of one message by pgbench, one client, commits not synced."""
    run.absent = {}
    number = run.form.sizes["calls"]
    with ExitStack() as stack:
        database = run.database(stack)

        def measure(name: str) -> Measure:
            return lambda _: Outcome(_call(database, name, number), {})

        run.compare(
            "one client", "µs", {name: measure(name) for name in CALLS}, "select 1",
            warm=False, less_is_better=True, limits=_LIMITS,
        )  # fmt: skip


def _call(database: str, name: str, number: int) -> float:
    """Return the microseconds of a call, each of which had one message to work on."""
    queue_name = f"calls-{time.monotonic_ns()}"
    queue = databases.create_queue(database, queue_name)
    if name in {"receive", "delete"}:
        databases.fill(database, queue_name, number, 0, lambda _: None)
    if name == "delete":
        databases.ask(
            database, f"select count(*) from skipmq.receive_messages({queue}, {number}, 600, 'off')"
        )
    messages = f"from skipmq.message where queue_id = {queue}"
    first = databases.ask(database, f"select coalesce(min(id), 0) - 1 {messages}")
    found = load.call(as_node(database), CALLS[name], number, queue=str(queue), n=first)
    stored, received = (
        int(databases.ask(database, f"select count(*) {messages} {which}"))
        for which in ("", "and receive_count > 0")
    )
    expected = {"send": (number, 0), "receive": (number, number)}
    if (stored, received) != expected.get(name, (0, 0)):
        raise Failed(f"{number} calls left {stored} messages, {received} of them received")
    return found


def start_up(run: Run) -> None:
    """From the command to the first message that is taken."""
    run.absent = {}
    ephemeral, lasting = f"{SKIPMQ_NAME}, --ephemeral", f"{SKIPMQ_NAME}, new data folder"
    starts: dict[str, Callable[[], AbstractContextManager[Broker]]] = {}
    if run.wants(SKIPMQ_NAME):
        starts[ephemeral] = lambda: peers.skipmq_alone(run.folder, ephemeral=True)
        starts[lasting] = lambda: peers.skipmq_alone(run.folder, ephemeral=False)
    if run.wants(ELASTICMQ):
        starts[ELASTICMQ] = lambda: peers.elasticmq(run.folder)
    if run.wants(MOTO):
        starts[MOTO] = lambda: peers.moto(run.folder)

    def measure(start: Callable[[], AbstractContextManager[Broker]]) -> Measure:
        def timed(_: int) -> Outcome:
            began = time.monotonic()
            with start():
                return Outcome(time.monotonic() - began, {})

        return timed

    run.compare(
        "from nothing to the first message", "s",
        {name: measure(start) for name, start in starts.items()}, lasting,
        warm=False, less_is_better=True, limits={ephemeral: 1.5, lasting: 1.5},
    )  # fmt: skip


def _percentiles(samples: list[float], value: int, **more: float) -> Outcome:
    details = {f"p{n}_ms": clients.percentile(samples, n) for n in (50, 99)}
    return Outcome(details[f"p{value}_ms"], details | {"worst_ms": max(samples)} | more)
