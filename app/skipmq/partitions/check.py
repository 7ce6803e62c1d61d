"""What is wrong with a router and its partitions, each with its remedy."""

from dataclasses import dataclass

import psycopg

from skipmq.database import address, schema
from skipmq.partitions.routers import MapError, PartitionMap, find_map, partition_urls

# Whether a partition has queues whose numbers belong to another one, and its receipt keys.
_UNFIT = "select count(*) from skipmq.queue where queue_id & %s <> %s"
_STEP = "select seqincrement from pg_sequence where seqrelid = 'skipmq.queue_id_seq'::regclass"
_KEYS = "select md5(string_agg(encode(key, 'hex'), ',' order by made_at)) from skipmq.receipt_key"
_PLACES = "select account, region, name, partition from skipmq.queue_place"
_HAS = (
    "select exists (select from skipmq.generation where account = %s and region = %s and name = %s)"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and what to do; `is_fatal` where nodes would send messages astray."""

    what: str
    remedy: str
    is_fatal: bool


def problems(router: str, partitions: list[str] | None = None) -> list[Problem]:
    """Return what is wrong with a router and its partitions.

    `partitions` are addresses as the schema's owner; without them the router's own are used.
    Raises MapError where the database is no router, psycopg.OperationalError where it is
    unavailable.
    """
    whole = find_map(router)
    if whole.partition is not None:
        raise MapError(f"{address.shown(router)} is a partition: give a router's address")
    named = partition_urls(router)
    found = []
    if len(named) != whole.partitions:
        found.append(
            Problem(
                f"the router's map has {whole.partitions} partitions and it connects to"
                f" {len(named)}",
                "make the router again with `skipmq partitions init`",
                is_fatal=True,
            )
        )
    keys: dict[int, str] = {}
    places: list[tuple[int, tuple[str, str, str], int]] = []
    reachable: dict[int, str] = {}
    release = schema.inspect(router).found
    for number, url in enumerate(partitions or named):
        try:
            found += _in_partition(url, number, whole, release, keys, places)
            reachable[number] = url
        except psycopg.OperationalError as error:
            reason = " ".join(str(error).split())
            found.append(
                Problem(
                    f"partition {number} does not answer ({reason})",
                    "its queues wait until it does; start it, or repair its cluster",
                    is_fatal=False,
                )
            )
    if len(set(keys.values())) > 1:
        found.append(
            Problem(
                "partitions have different keys for receipt handles, as after a restore",
                "run `skipmq partitions init` again: it copies those of the first partition",
                is_fatal=True,
            )
        )
    found += _lost_queues(places, reachable)
    return found


def _in_partition(  # noqa: PLR0913, PLR0917 - it collects.
    url: str,
    number: int,
    whole: PartitionMap,
    release: str | None,
    keys: dict[int, str],
    places: list[tuple[int, tuple[str, str, str], int]],
) -> list[Problem]:
    found = []
    state = schema.inspect(url)
    if state.found is None:
        return [_fatal(f"partition {number} has no SkipMQ", "run `skipmq partitions init` again")]
    if state.found != release:
        found.append(
            _fatal(
                f"partition {number} is at {state.found} and the router at {release}",
                "run `skipmq partitions init` again: it migrates partitions, then the router",
            )
        )
    present = find_map(url)
    if present != PartitionMap(whole.map_id, whole.partitions, number):
        place = f"number {present.partition} of {present.partitions}"
        what = "another map" if present.map_id != whole.map_id else place
        found.append(
            _fatal(
                f"partition {number} of the router says that it is {what}",
                "give the partitions in the order in which they were made",
            )
        )
        return found
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        unfit = connection.execute(_UNFIT, (whole.partitions - 1, number)).fetchone()
        step = connection.execute(_STEP).fetchone()
        key = connection.execute(_KEYS).fetchone()
        assert unfit is not None
        assert step is not None
        assert key is not None
        if unfit[0] or step[0] != whole.partitions:
            found.append(
                _fatal(
                    f"partition {number} has {unfit[0]} queues whose numbers belong elsewhere, and"
                    f" its sequence counts in steps of {step[0]} instead of {whole.partitions}",
                    "run `skipmq partitions init` again; move such queues to a partition of theirs",
                )
            )
        keys[number] = key[0]
        for account, region, name, place in connection.execute(_PLACES):
            places.append((number, (account, region, name), place))
    return found


def _lost_queues(
    places: list[tuple[int, tuple[str, str, str], int]], urls: dict[int, str]
) -> list[Problem]:
    """Return a problem for each partition that lacks queues which another one says are there."""
    missing: dict[int, list[str]] = {}
    for number, url in urls.items():
        wanted = [name for _, name, place in places if place == number]
        if not wanted:
            continue
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            for name in wanted:
                row = connection.execute(_HAS, name).fetchone()
                if row is not None and not row[0]:
                    missing.setdefault(number, []).append(name[2])
    return [
        Problem(
            f"partition {number} never had {len(names)} queues that their home says are there"
            f" ({', '.join(sorted(names)[:3])}), as after a restore from an old backup",
            "restore a newer backup, or create the queues again: they go there",
            is_fatal=False,
        )
        for number, names in missing.items()
    ]


def _fatal(what: str, remedy: str) -> Problem:
    return Problem(what, remedy, is_fatal=True)
