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
from concurrency.clients import Consumer, Mover, Producer, Purger, Queue, World, arn
from concurrency.hang_ups import Leaver, SureLeaver
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


def queues_of(seed: int) -> list[Queue]:
    """Return the queues of a seed: of each kind one with a dead-letter queue and one without."""
    return [
        Queue(f"plain-{seed}"),
        Queue(f"orders-{seed}", f"dead-{seed}", 2),
        Queue(f"plain-{seed}.fifo"),
        Queue(f"orders-{seed}.fifo", f"dead-{seed}.fifo", 2),
    ]


def create(sqs: Any, queues: Sequence[Queue]) -> None:
    for queue in queues:
        attributes = {"FifoQueue": "true"} if queue.fifo else {}
        if queue.dead:
            sqs.create_queue(QueueName=queue.dead, Attributes=attributes)
            policy = {"deadLetterTargetArn": arn(queue.dead), "maxReceiveCount": queue.most}
            attributes["RedrivePolicy"] = json.dumps(policy)
        sqs.create_queue(QueueName=queue.name, Attributes=attributes)


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
    patience: float = _PATIENCE,
) -> list[Op]:
    """Run the clients of a seed, receive what is left, and return the history."""
    with History(path) as history:
        queues = queues_of(seed)
        create(client(nodes[0].url), queues)
        now = time.monotonic()
        for queue in queues:
            policy = {"value": queue.dead, "receive_count": queue.most}
            history.add(Op("queue", "ok", "", now, now, queue.name, **policy))
        world = World(seed, database, nodes, history, queues, now + seconds)
        _run(users(world, kills=kills))
        drain(world, patience)
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
