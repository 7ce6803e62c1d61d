"""The cases about time and idleness: long polls that wait, wake-ups, starts."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from bench import latency, peers
from bench.load import Outcome
from bench.peers import ELASTICMQ, MOTO, SKIPMQ_NAME, Broker
from bench.record import Pair
from bench.run import Measure, Run

_WORKERS = 2


def idle_polls(run: Run) -> None:
    """What many long polls that wait on another queue cost: sends, processor, memory."""
    polls, rate = run.form.sizes["polls"], run.form.sizes["rate"]
    measures: dict[str, Measure] = {}
    with run.brokers(ELASTICMQ, warm=False) as others, ExitStack() as stack:
        brokers: dict[str, Broker] = {}
        if run.wants(SKIPMQ_NAME):
            node = peers.skipmq(run.database(stack), workers=_WORKERS)
            brokers[SKIPMQ_NAME] = stack.enter_context(node)
        for name, broker in (brokers | others).items():
            measures |= _with_and_without(name, broker, polls, rate)
        none, many = f"{SKIPMQ_NAME}, none", f"{SKIPMQ_NAME}, {polls:,} polls"
        sends = run.compare(
            f"p99 of {rate} sends a second", "ms", measures, none, warm=False,
            less_is_better=True, pairs=[Pair(many, none, 1.2)],
        )  # fmt: skip
        run.derive(
            sends, "processor_percent", "processor while nothing happens", "% of a core", many,
            limits={many: 5},
        )  # fmt: skip
        run.derive(
            sends, "memory_mb", "memory of an idle broker", "MB", none,
            limits={none: 150, many: 350},
        )  # fmt: skip


def _with_and_without(name: str, broker: Broker, polls: int, rate: int) -> dict[str, Measure]:
    busy, quiet = broker.queue(), broker.queue()
    left = -math.inf

    def measure(seconds: int) -> Outcome:
        details = {"memory_mb": broker.memory(), "resident_mb": broker.resident()}
        used, began = broker.processor_time(), time.monotonic()
        time.sleep(seconds)
        used = broker.processor_time() - used
        details["processor_percent"] = 100 * used / (time.monotonic() - began)
        latency.sends(broker.url, busy, rate, 1)
        samples = _percentiles(latency.sends(broker.url, busy, rate, seconds), 99)
        return Outcome(samples.rate, samples.details | details)

    def without(seconds: int) -> Outcome:
        # Until the broker has let go of the polls of the last round, whose clients are gone.
        time.sleep(max(0, left + latency.LONGEST_POLL + 1 - time.monotonic()))
        return measure(seconds)

    def parked(seconds: int) -> Outcome:
        nonlocal left
        with latency.parked(broker.url, quiet, polls):
            outcome = measure(seconds)
        left = time.monotonic()
        return outcome

    return {f"{name}, none": without, f"{name}, {polls:,} polls": parked}


def wake_up(run: Run) -> None:
    """From a send to the receiver that waits, on the same node and on another one."""
    samples = run.form.sizes["samples"]
    same, other = f"{SKIPMQ_NAME}, same node", f"{SKIPMQ_NAME}, other node"

    def measure(sender: Broker, receiver: Broker) -> Measure:
        queue = receiver.queue()
        return lambda _: _percentiles(
            latency.wake_ups(sender.url, receiver.url, queue, samples), 50
        )

    with run.brokers(ELASTICMQ, MOTO) as brokers, ExitStack() as stack:
        measures: dict[str, Measure] = {}
        if run.wants(SKIPMQ_NAME):
            database = run.database(stack)
            one = stack.enter_context(peers.skipmq(database))
            two = stack.enter_context(peers.skipmq(database))
            measures = {same: measure(one, one), other: measure(two, one)}
        measures |= {name: measure(broker, broker) for name, broker in brokers.items()}
        run.compare(
            "p50 from send to receiver", "ms", measures, same, warm=False, less_is_better=True,
            limits={same: 5, other: 15},
        )  # fmt: skip


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
            with start() as broker:
                return Outcome(time.monotonic() - broker.started, {})

        return timed

    run.compare(
        "from nothing to the first message", "s",
        {name: measure(start) for name, start in starts.items()}, lasting,
        less_is_better=True, limits={ephemeral: 3, lasting: 3},
    )  # fmt: skip


def _percentiles(samples: list[float], value: int) -> Outcome:
    details = {f"p{n}_ms": latency.percentile(samples, n) for n in (50, 90, 99)}
    details |= {"worst_ms": max(samples), "samples": float(len(samples))}
    return Outcome(details[f"p{value}_ms"], details)
