"""The map of partitions, as a database or a router has it."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import psycopg

from skipmq.database import address, maintenance
from skipmq.database.session import one

_IS_SUPERUSER = "select rolsuper from pg_roles where rolname = current_user"
_NODE_LOGIN = """
select o.option_value from pg_user_mappings m, pg_options_to_table(m.umoptions) o
where m.srvname = 'skipmq' and m.usename = 'skipmq_router' and o.option_name = 'password'
"""
_ADDRESSES = "select addresses from skipmq.partition_map()"
# A queue id has the number of its partition, and 57 random bits (new_queue_id.sql). A message keeps
# its number when its queue is moved: each partition has a range of its own.
MOST_PARTITIONS, MESSAGE_BITS = 64, 48


class MapError(Exception):
    """Partitions that cannot be used together; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """What a database or a router has of the map: its own number is None in a router.

    `homes` is the number of partitions when they were made.
    """

    map_id: UUID | None
    partitions: int
    homes: int
    partition: int | None


def new_map(partitions: int, *, has_queues: bool = False) -> PartitionMap:
    """Return the map of a new set of partitions, of which the first may have queues already.

    It is then the home of all names. Raises MapError for more partitions than there may be.
    """
    _check_number(partitions)
    return PartitionMap(uuid4(), partitions, 1 if has_queues else partitions, None)


def has_queues(url: str) -> bool:
    """Return whether a database has, or had, queues; raise psycopg.OperationalError."""
    with maintenance.connect(url) as connection:
        query = "select exists (select from skipmq.generation)"
        return bool(one(connection, query)[0])


def grown(whole: PartitionMap, by: int) -> PartitionMap:
    """Return a map with more partitions; raise MapError for more than there may be."""
    _check_number(whole.partitions + by)
    return replace(whole, partitions=whole.partitions + by)


def _check_number(partitions: int) -> None:
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise MapError(f"{partitions} partitions: use 1 to {MOST_PARTITIONS}")


def find_map(url: str) -> PartitionMap:
    """Return the map that a router or a partition has.

    Raises MapError for a database without SkipMQ, psycopg.OperationalError.
    """
    with maintenance.connect(url) as connection:
        if exists(connection, "skipmq_router.map"):
            query = "select map_id, partitions, homes, null from skipmq_router.map"
        elif exists(connection, "skipmq.cluster"):
            query = "select map_id, partitions, homes, partition from skipmq.cluster"
        else:
            raise MapError(f"{address.shown(url)} has no SkipMQ: run `skipmq partitions init`")
        return PartitionMap(*one(connection, query))


def partition_urls(router: str) -> list[str]:
    """Return the addresses of a router's partitions, without users and passwords."""
    with maintenance.connect(router) as connection:
        return list(one(connection, _ADDRESSES)[0])


def owner_urls(router: str) -> tuple[list[str], str]:
    """Return the addresses of a router's partitions as their owner, and the nodes' password.

    `router` is a superuser's address. The owner's password is not stored: libpq reads it from
    PGPASSWORD or PGPASSFILE. Raises MapError for another user.
    """
    with maintenance.connect(router) as connection:
        if not one(connection, _IS_SUPERUSER)[0]:
            raise MapError(f"{address.shown(router)} is no superuser's address")
        (owner,) = one(connection, "select owner from skipmq_router.map")
        row = connection.execute(_NODE_LOGIN).fetchone()
    user = {"user": owner} if owner else {}
    urls = [psycopg.conninfo.make_conninfo(url, **user) for url in partition_urls(router)]
    return urls, row[0] if row else ""


def exists(connection: psycopg.Connection[Any], table: str) -> bool:
    """Return whether a database has a table."""
    return one(connection, "select to_regclass(%s)", table)[0] is not None
