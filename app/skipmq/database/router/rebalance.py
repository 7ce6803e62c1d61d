"""Which queues should live in another partition than they do, as after partitions were added."""

from collections.abc import Sequence
from typing import Any

from skipmq.database import maintenance
from skipmq.database.partitions import chosen
from skipmq.database.router.partition_map import PartitionMap
from skipmq.database.router.relocation import Move

_Name = tuple[str, str, str]
_QUEUES = """
select account, region, name, dead_letter_account, dead_letter_name, skipmq.count_all(queue_id)
from skipmq.queue
"""

# Unless the home has the queue itself.
_PLACE = """
insert into skipmq.queue_place (account, region, name, partition)
select v.* from (values (%s, %s, %s, %s)) v (account, region, name, partition)
where not exists (
  select from skipmq.queue q
  where q.account = v.account and q.region = v.region and q.name = v.name)
on conflict (account, region, name) do update set partition = excluded.partition
"""


def plan(urls: Sequence[str], whole: PartitionMap) -> list[Move]:
    """Return the moves after which each queue is in the partition that its name chooses.

    Queues with redrive policies stay together: the last dead-letter queue chooses for all. Those
    with the fewest messages come first. `urls` are the partitions' addresses as their owner; raises
    psycopg.Error.
    """
    moves = []
    for source, url in enumerate(urls):
        with maintenance.connect(url) as connection:
            rows = connection.execute(_QUEUES).fetchall()
        messages = {row[:3]: row[5] for row in rows}
        for queues in _tied(rows):
            target = chosen(*queues[0], whole.partitions)
            if target != source:
                total = sum(messages[name] for name in queues)
                moves.append(Move(source, target, tuple(sorted(queues)), total))
    return sorted(moves, key=lambda move: (move.messages, move.queues))


def record_places(urls: Sequence[str], whole: PartitionMap) -> None:
    """Let each home know the queues that are elsewhere, as it does not after a restore.

    Raises psycopg.Error.
    """
    places: dict[int, list[tuple[str, str, str, int]]] = {}
    for number, url in enumerate(urls):
        with maintenance.connect(url) as connection:
            for account, region, name, *_ in connection.execute(_QUEUES):
                if (home := chosen(account, region, name, whole.homes)) != number:
                    places.setdefault(home, []).append((account, region, name, number))
    for home, rows in places.items():
        with maintenance.connect(urls[home], autocommit=False) as connection:
            for row in rows:
                connection.execute(_PLACE, row)


def _tied(rows: Sequence[Any]) -> list[list[_Name]]:
    """Return the queues that redrive policies tie, the last dead-letter queue of each first."""
    names = {row[:3] for row in rows}
    follows = {row[:3]: (row[3], row[1], row[4]) for row in rows if row[4] is not None}
    tied: dict[_Name, list[_Name]] = {}
    for name in sorted(names):
        path = [name]
        while (after := follows.get(path[-1])) in names and after not in path:
            path.append(after)
        # Queues that are each other's dead-letter queues: the first by name.
        last = path[-1]
        if after in path:
            last = min(path[path.index(after) :])
        tied.setdefault(last, []).append(name)
    return [sorted(queues, key=lambda name: (name != last, name)) for last, queues in tied.items()]
