"""Small histories, made by hand: each call takes a tenth of a second."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cluster.history import Op, Type

TOOK = 0.1
QUEUE, FIFO = "orders", "orders.fifo"
HEALTHY = ("0", "0", "0")
_NAMES = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


def op(kind: str, at: float, *, outcome: Type = "ok", **more: Any) -> Op:
    return Op(kind, outcome, more.pop("process", "p"), at, at + more.pop("took", TOOK), **more)


def send(at: float, value: str, number: int = 0, **more: Any) -> Op:
    """Give a send, of the message whose id is that of its value; to a FIFO queue with a number."""
    queue = more.setdefault("queue", FIFO if number else QUEUE)
    if queue == FIFO:
        more.setdefault("group", "g")
    if more.get("outcome", "ok") == "ok":
        more.setdefault("message_id", f"id-{value}")
        more["sequence_number"] = number
    return op("send", at, value=value, **more)


def receive(at: float, value: str, count: int = 1, number: int = 0, **more: Any) -> Op:
    """Give a receive that hides the message for ten seconds, with a receipt of its own."""
    if number:
        more.setdefault("group", "g")
    return op(
        "receive",
        at,
        queue=more.pop("queue", FIFO if number else QUEUE),
        value=value,
        message_id=more.pop("message_id", f"id-{value}"),
        receipt=f"{value}-{count}-{at}",
        receive_count=count,
        sequence_number=number,
        visibility=more.pop("visibility", 10),
        **more,
    )


def settle(kind: str, at: float, received: Op, **more: Any) -> Op:
    """Give the delete, or the hide, of what was received."""
    made = replace(received, op=kind, t_invoke=at, t_ok=at + TOOK, place=0, visibility=0)
    return replace(made, **{{"outcome": "type"}.get(k, k): v for k, v in more.items()})


def life(at: float, value: str, number: int = 0) -> list[Op]:
    """Give a message that is sent, received a second later and then deleted."""
    received = receive(at + 1, value, number=number)
    return [send(at, value, number), received, settle("delete", at + 2, received)]


def fault(
    name: str, at: float, *, lasts: float = 1, healthy: float = 3, place: int = 1
) -> list[Op]:
    """Give a fault, its heal after so many seconds, and when the cluster was healthy again."""
    moments = {"strike": at, "heal": at + lasts, "healthy": at + healthy}
    return [
        op(kind, when, value=name, process="postgres1", place=place, took=0)
        for kind, when in moments.items()
    ]


def closing(
    *queues: str, counts: Iterable[str] = HEALTHY, rows: Iterable[int] = (0, 0, 0), at: float = 1000
) -> list[Op]:
    """Give the look at the attributes and at the rows of all servers at the end."""
    told = json.dumps(dict(zip(_NAMES, counts, strict=True)))
    looks = [op("attributes", at, queue=queue, value=told) for queue in queues or (QUEUE, FIFO)]
    contents = [
        op("content", at, process=f"postgres{n}", value=json.dumps({"message": [number, "abc"]}))
        for n, number in enumerate(rows, 1)
    ]
    return [op("phase", at - 1, value="drain"), *looks, *contents]


def steady(begin: float, end: float, every: float = 0.5) -> list[Op]:
    """Give whole lives, one after the other."""
    number = int((end - begin) / every)
    return [each for n in range(number) for each in life(begin + n * every, f"steady-{begin}-{n}")]
