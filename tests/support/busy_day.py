"""A day of history with troubles that a report should find, the same each time."""

import json
from random import Random
from typing import Any

import pyarrow as pa

from skipmq.analytics import delta, queue_settings
from support.settled import row

DAY = 86_400
_NOON = DAY // 2
TIMEOUTS = {"orders": 30, "mails": 900, "payments.fifo": 60, "thumbnails": 30, "dead": 30}


def history() -> pa.Table:
    """Return the day's rows, about 6,000."""
    random = Random(7)  # noqa: S311 - not a secret.
    rows = [
        *_orders(random, 2000),
        *_mails(random, 1500),
        *_payments(random, 1000),
        *_thumbnails(random, 1500),
    ]
    return pa.Table.from_pylist(
        [made | {"xid": n} for n, made in enumerate(rows)], schema=delta.SCHEMA
    )


def queues() -> pa.Table:
    """Return the settings of the day's queues."""
    place = {"account": "000000000000", "region": "us-east-1"}
    rows = [place | {"queue": n, "visibility_timeout": t} for n, t in TIMEOUTS.items()]
    return pa.Table.from_pylist(rows, schema=queue_settings.SCHEMA)


def _moment(random: Random) -> float:
    """Return a time of the day, in seconds after noon: more around noon than at night."""
    return (min(max(random.gauss(0.5, 0.2), 0.001), 0.97)) * DAY - _NOON


def _orders(random: Random, number: int) -> list[dict[str, Any]]:
    """Slow work against a short timeout; those without a price die."""
    rows = []
    for n in range(number):
        sent = _moment(random)
        received = sent + random.lognormvariate(-2, 1)
        work = random.lognormvariate(2.4, 0.6)
        again = work > 30 and random.random() < 0.7
        body: dict[str, Any] = {"order": n, "price": round(random.uniform(1, 90), 2)}
        if random.random() < 0.012:
            body["price"] = None
        common = {
            "sent": sent,
            "received": received,
            "body": json.dumps(body),
            "attributes": _attribute("channel", random.choice(["web", "shop", "partner"])),
            "attribute_bytes": 60,
            "node": random.choice(["node-a", "node-b"]),
        }
        if body["price"] is None:
            rows += _letter(n, received + 150 + random.random(), common)
        else:
            settled = received + (30 * random.choice([1, 1, 2]) + work if again else work)
            common["receive_count"] = 2 if again else 1
            rows.append(row(n, settled=settled, **common))
    return rows


def _letter(number: int, moved: float, common: dict[str, Any]) -> list[dict[str, Any]]:
    letter = common | {"receive_count": 5}
    return [
        row(number, settled=moved, outcome="dead-lettered", **letter),
        row(number, settled=moved + 4000, queue="dead", **letter | {"receive_count": 6}),
    ]


def _mails(random: Random, number: int) -> list[dict[str, Any]]:
    """Fast work against a long timeout, and a tenant that sends more than all others."""
    rows = []
    for n in range(number):
        sent = _moment(random)
        tenant = "tenant-0" if random.random() < 0.4 else f"tenant-{random.randrange(1, 40)}"
        received = sent + random.lognormvariate(-1, 1.2)
        rows.append(
            row(
                1_000_000 + n, sent=sent, received=received, queue="mails", group_id=tenant,
                settled=received + random.lognormvariate(-1.5, 0.5), node="node-b",
                body_bytes=random.randrange(500, 9000),
            )
        )  # fmt: skip
    return rows


def _payments(random: Random, number: int) -> list[dict[str, Any]]:
    """A FIFO queue with one hot group."""
    rows = []
    for n in range(number):
        sent = _moment(random)
        hot = random.random() < 0.3
        received = sent + random.lognormvariate(1.5 if hot else -2, 1)
        rows.append(
            row(
                2_000_000 + n, sent=sent, received=received, queue="payments.fifo",
                settled=received + random.lognormvariate(-0.5, 0.4), node="node-a",
                group_id="account-7" if hot else f"account-{random.randrange(100, 400)}",
                body_bytes=random.randrange(200, 400),
            )
        )  # fmt: skip
    return rows


def _thumbnails(random: Random, number: int) -> list[dict[str, Any]]:
    """A backlog that grows in the evening, when half of the consumers are gone."""
    rows = []
    sends = sorted(_moment(random) for _ in range(number))
    free = -float(_NOON)
    for n, sent in enumerate(sends):
        free = max(free, sent) + DAY / number * (0.45 if sent < 10_000 else 1.9)
        there = free < _NOON
        rows.append(
            row(
                3_000_000 + n, sent=sent, received=free if there else None, queue="thumbnails",
                settled=free + random.lognormvariate(0, 0.6) if there else None,
                node=random.choice(["node-a", "node-b", "node-c"]), body_bytes=120,
            )
        )  # fmt: skip
    return rows


def _attribute(name: str, value: str) -> str:
    return json.dumps({name: {"DataType": "String", "StringValue": value}})
