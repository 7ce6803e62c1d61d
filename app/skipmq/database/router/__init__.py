"""Queues spread over several databases behind routers of PL/Proxy; a node is the same.

A partition is a database with the schema of SkipMQ and a share of the queues. A router is a
database with the schema's functions and none of its tables: each call goes to the partition that
has the queue. It keeps nothing but the map, so that a lost one is made again.
"""

from skipmq.database.router.check import Problem, problems
from skipmq.database.router.partition_map import (
    MapError,
    PartitionMap,
    find_map,
    grown,
    has_queues,
    new_map,
    owner_urls,
    partition_urls,
)
from skipmq.database.router.rebalance import plan, record_places
from skipmq.database.router.relocation import BusyError, Move, Mover
from skipmq.database.router.routers import assign, check_secrets, install

__all__ = [
    "BusyError",
    "MapError",
    "Move",
    "Mover",
    "PartitionMap",
    "Problem",
    "assign",
    "check_secrets",
    "find_map",
    "grown",
    "has_queues",
    "install",
    "new_map",
    "owner_urls",
    "partition_urls",
    "plan",
    "problems",
    "record_places",
]
