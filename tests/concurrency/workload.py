"""A history: clients of every kind at a few small queues for some seconds, then all is received."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import psycopg

from cluster.history import History, Op
from concurrency.clients import Consumer, Mover, Producer, Purger, World
from concurrency.clocks import ClockMover
from concurrency.flights import flights
from concurrency.hang_ups import Leaver, SureLeaver
from concurrency.killed import KilledConsumer
from concurrency.publishers import Publisher
from concurrency.queues import create, queues_of, topics_of
from concurrency.transactions import SqlUser
from support.http import NodeProcess, client
from support.nodes import Nodes
from support.postgres import as_node

# Much longer than anything is hidden for.
_PATIENCE = 60
_LEFT = (
    "select q.name, count(m.id) from skipmq.queue q left join skipmq.message m using (queue_id)"
    " where q.name = any (%s) group by q.name"
)


class Killer:
    """Kills a node in the middle and starts another in its place."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run(self) -> None:
        world = self._world
        chance = random.Random(world.seed)  # noqa: S311 - no secret.
        time.sleep(chance.uniform(0.5, 1.5))
        number = chance.randrange(len(world.nodes))
        begun = time.monotonic()
        world.nodes[number].kill()
        world.nodes[number].__exit__()
        world.nodes[number] = start(world.database, world.nodes[number].port)
        op = Op("kill", "ok", "killer", begun, time.monotonic(), value=str(number))
        world.history.add(op)


@contextmanager
def two_nodes(database: str) -> Iterator[Nodes]:
    """Run two nodes, either of which may be replaced meanwhile."""
    nodes: Nodes = []
    try:
        nodes += [start(database), start(database)]
        yield nodes
    finally:
        for node in nodes:
            node.__exit__()


def start(database: str, port: int | None = None) -> NodeProcess:
    more = {} if port is None else {"port": port}
    node = NodeProcess(database_url=as_node(database), workers=1, purge_cooldown=0, **more)
    return node.ready()


def recorded(
    database: str,
    nodes: Nodes,
    seed: int,
    path: Path,
    *,
    seconds: float = 4,
    kills: bool = False,
    drawn: bool = False,
    moves: bool = False,
    patience: float = _PATIENCE,
) -> list[Op]:
    """Run the clients of a seed, receive what is left, and return the history."""
    with History(path) as history:
        queues, topics = queues_of(seed, drawn=drawn), topics_of(seed) if drawn else []
        create(client(nodes[0].url), client(nodes[0].url, "query", service="sns"), queues, topics)
        now = time.monotonic()
        for queue in queues:
            policy = {"value": queue.dead, "receive_count": queue.most}
            history.add(Op("queue", "ok", "", now, now, queue.name, **policy))
            if queue.attributes:
                known = json.dumps({**queue.attributes})
                history.add(Op("set", "ok", "", now, now, queue.name, value=known))
        for topic in topics:
            known = json.dumps({**topic.queues})
            history.add(Op("topic", "ok", "", now, now, topic.name, value=known))
        world = World(seed, database, nodes, history, queues, topics, now + seconds)
        _run([*users(world, kills=kills), *([ClockMover(world, "clock")] if moves else [])])
        drain(world, patience)
        if drawn:
            history.add(*flights(database, [queue.name for queue in queues]))
        return history.ops


def users(world: World, *, kills: bool) -> list[Any]:
    """Return who takes part: one seed in two has purges, which excuse losses, and so on."""
    one_at_a_time = Lock()
    found: list[Any] = [
        *(Producer(world, f"producer-{n}") for n in range(2)),
        *(Consumer(world, f"consumer-{n}") for n in range(5)),
        SqlUser(world, "sql", one_at_a_time),
        SureLeaver(world, "sure-leaver", one_at_a_time),
    ]
    if world.topics:
        found += [Publisher(world, "publisher"), KilledConsumer(world, "killed")]
    if world.seed % 2:
        found.append(Purger(world, "purger"))
    if world.seed % 3 == 0:
        found.append(Leaver(world, "leaver"))
    if world.seed % 4 != 0:
        found.append(Mover(world, "mover"))
    return [*found, Killer(world)] if kills else found


def _run(found: Sequence[Any]) -> None:
    with ThreadPoolExecutor(len(found)) as pool:
        for future in [pool.submit(user.run) for user in found]:
            future.result()


def drain(world: World, patience: float) -> None:
    """Receive and delete until nothing is there, or it cannot be received."""
    drainer = Consumer(world, "drainer")
    deadline = time.monotonic() + patience
    with psycopg.connect(world.database, autocommit=True) as connection:
        while any((counts := left(connection, world)).values()) and time.monotonic() < deadline:
            for name in (name for name, count in counts.items() if count):
                drainer.delete(drainer.receive(name, 10, 0))
            time.sleep(0.02)
    now = time.monotonic()
    for name, count in counts.items():
        world.history.add(Op("left", "ok", "drainer", now, now, name, receive_count=count))
    drainer.close()


def left(connection: psycopg.Connection[Any], world: World) -> dict[str, int]:
    """Return how many messages each queue has, at one moment."""
    return dict(connection.execute(_LEFT, (world.all_queues(),)).fetchall())
