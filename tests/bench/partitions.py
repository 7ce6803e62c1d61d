"""What it costs to spread queues over several databases, and what it gives."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg

from bench import databases, load, machine, peers
from bench.load import Outcome, Shape
from bench.peers import Broker
from bench.record import Pair
from bench.run import Measure, Run
from bench.usage import processor_seconds
from bench.wire import Client
from skipmq.database import embedded
from support.partitions import Partitions
from support.postgres import Databases

_ONE, _TWO = "one database", "two partitions"
# By messages a request: the processor time of a request with two partitions to that with one
# database.
_GOALS = {10: 1.15}
# Connections for each partition, so few that commits and not processors bound them.
_CLIENTS = 2


def partitions(run: Run) -> None:
    """What two partitions cost a request; the rates of 1, 2 and 4 whose commits wait."""
    run.absent = {}
    folder = run.folder / "router"
    with embedded.start(folder, ephemeral=True, bin_dir=machine.plproxy()) as started:
        router = Databases(started)
        _cost(run, router)
        for wait in run.form.sizes["waits"]:
            _rates(run, wait, router)


def _cost(run: Run, router: Databases) -> None:
    with ExitStack() as stack:
        one = stack.enter_context(peers.skipmq(run.database(stack), workers=1))
        made = Partitions([run.databases] * 2, router)
        stack.callback(made.drop)
        node = stack.enter_context(peers.skipmq(made.router, workers=1))
        # All databases are on one server.
        contestants = {_ONE: one, _TWO: replace(node, postmaster=one.postmaster)}
        for batch in (1, 10):
            for connections in run.form.sizes["connections"]:
                shape = Shape(batch, connections=connections)
                run.compare(
                    f"processor time a request of node and PostgreSQL, {shape}", "µs",
                    {name: _processor(run, node, shape) for name, node in contestants.items()},
                    _ONE, less_is_better=True, pairs=[Pair(_TWO, _ONE, _GOALS.get(batch))],
                )  # fmt: skip


def _processor(run: Run, broker: Broker, shape: Shape) -> Measure:
    measure = run.cycles(broker, shape)

    def processor(seconds: int) -> Outcome:
        found = measure(seconds)
        used = found.details["broker_us"] + found.details["database_us"]
        return Outcome(used, found.details)

    return processor


@contextmanager
def _slow(folder: Path, wait: int) -> Iterator[Databases]:
    """Run a server whose flushes of the log take some ms more, one after another, as a slow disk's.

    They take no processor time.
    """
    with databases.server(folder) as server:
        with psycopg.connect(server.server.url, autocommit=True) as connection:
            connection.execute(f"alter system set commit_delay = {1000 * wait}")
            connection.execute("alter system set commit_siblings = 0")
            connection.execute("select pg_reload_conf()")
        yield server


def _rates(run: Run, wait: int, router: Databases) -> None:
    with ExitStack() as stack:
        folders = [run.folder / f"slow-{wait}-{number}" for number in range(4)]
        made = Partitions([stack.enter_context(_slow(each, wait)) for each in folders], router)
        _compare_rates(run, wait, made)
        made.drop()


def _compare_rates(run: Run, wait: int, made: Partitions) -> None:
    pids = [databases.postmaster(url) for url in made.urls]
    with peers.skipmq(made.router, workers=1) as node:

        def spread(number: int) -> Measure:
            def measure(seconds: int) -> Outcome:
                with closing(Client(node.url)) as client:
                    queues = [client.create_queue(made.name_at(n)) for n in range(number)]
                before = _used(node, pids)
                shape = Shape(1, connections=_CLIENTS)
                with ThreadPoolExecutor(number) as pool:
                    loads = [
                        pool.submit(load.wrk, [node.url], [queue], shape, seconds)
                        for queue in queues
                    ]
                    found = [each.result() for each in loads]
                used = _used(node, pids) - before
                requests = sum(each.details["requests"] for each in found)
                details = {"processor_us": used / requests * 1e6} | {
                    name: max(each.details[name] for each in found) for name in ("p50_ms", "p99_ms")
                }
                return Outcome(sum(each.rate for each in found), details)

            return measure

        names = {1: "1 partition", 2: "2 partitions", 4: "4 partitions"}
        found = run.compare(
            f"flushes take {wait} ms more, {_CLIENTS} connections for each partition", "messages/s",
            {name: spread(number) for number, name in names.items()}, names[1],
            pairs=[Pair(names[number], names[1], 0.9 * number) for number in (2, 4)],
        )  # fmt: skip
        run.derive(
            found, "processor_us",
            f"processor time a request of node and partitions, flushes {wait} ms", "µs",
            names[1], pairs=[Pair(names[number], names[1], 1.1) for number in (2, 4)],
        )  # fmt: skip


def _used(node: Broker, pids: Sequence[int]) -> float:
    return processor_seconds(node.pid) + sum(processor_seconds(pid) for pid in pids)
