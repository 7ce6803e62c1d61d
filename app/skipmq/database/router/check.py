"""What is wrong with a router and its partitions, each with its remedy."""

from dataclasses import dataclass, field
from typing import Any

import psycopg

from skipmq.database import address, maintenance, schema
from skipmq.database.partitions import QUEUE_BITS, chosen
from skipmq.database.router import copying
from skipmq.database.router.partition_map import (
    MESSAGE_BITS,
    MapError,
    PartitionMap,
    find_map,
    owner_urls,
    partition_urls,
)
from skipmq.database.session import one

# The queues of a partition whose ids belong to another one, and whether its sequence of messages
# would give such numbers.
_UNFIT = "select count(*) from skipmq.queue where queue_id >> %s <> %s"
_NEXT = "select last_value >> %s <> %s from skipmq.message_id_seq"
_PLACES = "select account, region, name, partition from skipmq.queue_place"
_QUEUES = "select account, region, name from skipmq.queue"
_HAS = (
    "select exists (select from skipmq.generation where account = %s and region = %s and name = %s)"
)
_RELOCATED = "select string_agg(name, ', ' order by name) from skipmq.relocation"
_CALL = "select skipmq_router.queue_place(%s, '000000000000', 'us-east-1', 'skipmq')"
_AGAIN = "run `skipmq partitions init` again"
_Name = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and what to do; `is_fatal` where nodes would send messages astray."""

    what: str
    remedy: str
    is_fatal: bool


def problems(router: str, partitions: list[str] | None = None) -> list[Problem]:
    """Return what is wrong with a router and its partitions.

    `partitions` are addresses as the schema's owner, by default those that the router has.
    Raises MapError where the database is no router, psycopg.OperationalError where it is
    unavailable.
    """
    whole = find_map(router)
    if whole.partition is not None:
        raise MapError(f"{address.shown(router)} is a partition: give a router's address")
    named = partition_urls(router)
    examined = _Examined(whole, schema.inspect(router).found)
    if len(named) != whole.partitions:
        examined.add(
            f"the router's map has {whole.partitions} partitions and it connects to {len(named)}",
            "make the router again with `skipmq partitions init`",
        )
    examined.call(router)
    for number, url in enumerate(partitions or _urls(router)):
        try:
            examined.examine(number, url)
        except psycopg.OperationalError as error:
            examined.add(
                f"partition {number} does not answer ({' '.join(str(error).split())})",
                "its queues wait until it does; start it, or repair its cluster",
                is_fatal=False,
            )
    examined.compare()
    return examined.found


def _urls(router: str) -> list[str]:
    try:
        return owner_urls(router)[0]
    except MapError:
        return partition_urls(router)


@dataclass(slots=True)
class _Examined:
    """What was found in the partitions so far; `release` is the router's."""

    whole: PartitionMap
    release: str | None
    found: list[Problem] = field(default_factory=list)
    receipt_keys: set[str] = field(default_factory=set)
    access_keys: set[str] = field(default_factory=set)
    # The partitions that each queue is in, and the one where its home says that it is.
    queues: dict[_Name, list[int]] = field(default_factory=dict)
    places: dict[_Name, int] = field(default_factory=dict)
    reachable: dict[int, str] = field(default_factory=dict)

    def add(self, what: str, remedy: str, *, is_fatal: bool = True) -> None:
        self.found.append(Problem(what, remedy, is_fatal))

    def call(self, router: str) -> None:
        """Call each partition by way of the router, with the rights of a node."""
        with maintenance.connect(router) as connection:
            connection.execute("set role skipmq_node")
            for number in range(self.whole.partitions):
                try:
                    connection.execute(_CALL, (number,))
                except psycopg.Error as error:
                    self.add(
                        f"the router cannot call partition {number}"
                        f" ({' '.join(str(error).split())})",
                        "start it; install PL/Proxy on the router's server; or make the router"
                        " again with `skipmq partitions init` and the nodes' password",
                        is_fatal=False,
                    )

    def examine(self, number: int, url: str) -> None:
        """Examine one partition; raise psycopg.OperationalError."""
        state = schema.inspect(url)
        if state.found is None:
            self.add(f"partition {number} has no SkipMQ", _AGAIN)
            return
        if state.found != self.release:
            self.add(
                f"partition {number} is at {state.found} and the router at {self.release}",
                f"{_AGAIN}: it migrates partitions, then the router",
            )
        present = find_map(url)
        if (present.map_id, present.homes, present.partition) != (
            self.whole.map_id,
            self.whole.homes,
            number,
        ):
            place = f"number {present.partition} of {present.partitions}"
            what = "another map" if present.map_id != self.whole.map_id else place
            self.add(
                f"partition {number} of the router says that it is {what}",
                "give the partitions in the order in which they were made",
            )
            return
        if present.partitions != self.whole.partitions:
            self.add(
                f"partition {number} is one of {present.partitions} and the router's map has"
                f" {self.whole.partitions}",
                "run `skipmq partitions add` again, for this router",
            )
        with maintenance.connect(url) as connection:
            self._examine_queues(number, connection)
        self.reachable[number] = url

    def _examine_queues(self, number: int, connection: psycopg.Connection[Any]) -> None:
        (unfit,) = one(connection, _UNFIT, QUEUE_BITS, number)
        (is_astray,) = one(connection, _NEXT, MESSAGE_BITS, number)
        if unfit or is_astray:
            self.add(
                f"partition {number} has {unfit} queues whose numbers belong elsewhere"
                + (", and so do the next numbers of its sequences" if is_astray else ""),
                "restore a backup of this partition, or make it again from an empty database",
            )
        (relocated,) = one(connection, _RELOCATED)
        if relocated is not None:
            self.add(
                f"queues of partition {number} wait on their way to another one ({relocated})",
                "run `skipmq partitions rebalance`, which continues",
                is_fatal=False,
            )
        self.receipt_keys.add(one(connection, copying.RECEIPT_KEYS)[0])
        self.access_keys.add(one(connection, copying.ACCESS_KEYS)[0])
        for row in connection.execute(_QUEUES):
            self.queues.setdefault(row[:3], []).append(number)
        for account, region, name, place in connection.execute(_PLACES):
            self.places[account, region, name] = place

    def compare(self) -> None:
        """Compare the partitions with each other."""
        if len(self.receipt_keys) > 1:
            self.add(
                "partitions have different keys for receipt handles, as after a restore",
                f"{_AGAIN}: it copies those of the first partition",
            )
        if len(self.access_keys) > 1:
            self.add(
                "partitions have different access keys, as after a restore, or a change while one"
                " was unavailable",
                f"{_AGAIN}: it copies those of the first partition",
                is_fatal=False,
            )
        missing: dict[int, list[str]] = {}
        for name, place in self.places.items():
            if place in self.reachable and place not in self.queues.get(name, []):
                with maintenance.connect(self.reachable[place], autocommit=False) as connection:
                    if not one(connection, _HAS, *name)[0]:
                        missing.setdefault(place, []).append(name[2])
        for number, names in missing.items():
            self.add(
                f"partition {number} never had {_listed(names)} that their home says are there,"
                " as after a restore from an old backup",
                "restore a newer backup, or create the queues again: they go there",
                is_fatal=False,
            )
        doubled = [name[2] for name, there in self.queues.items() if len(there) > 1]
        if doubled:
            self.add(
                f"several partitions have {_listed(doubled)}, as after a restore from an old"
                " backup of the partition that they were moved from",
                "compare their messages, and delete the older one of each in its partition, by SQL",
            )
        astray = [
            name[2]
            for name, there in self.queues.items()
            if len(there) == 1
            and there[0] != self.places.get(name, chosen(*name, self.whole.homes))
        ]
        if astray and len(self.reachable) == self.whole.partitions:
            self.add(
                f"the homes of {_listed(astray)} do not know where they are, as after a restore"
                " from an old backup",
                "run `skipmq partitions rebalance`, which records their places",
            )


def _listed(names: list[str]) -> str:
    return f"{len(names)} queues ({', '.join(sorted(names)[:3])})"
