"""Work that requests do not wait for."""

from asyncio import CancelledError
from pathlib import Path
from threading import Event
from typing import Any

from shop.models import Order, Shipment

try:
    from django.tasks import task
except ModuleNotFoundError:
    from django_tasks import task


@task
def add(a: int, *, b: int) -> dict[str, int]:
    return {"sum": a + b}


@task
async def add_later(a: int, b: int) -> int:
    return a + b


@task(takes_context=True)
def attempt(context: Any, item: str) -> list[Any]:
    Order.objects.create(item=item)
    return [context.attempt, context.task_result.status, item]


@task
def fail(text: str) -> None:
    raise ValueError(text)


@task
def end_oddly(how: str) -> str:
    if how == "exit":
        raise SystemExit(3)
    if how == "cancelled":
        raise CancelledError
    if how == "error":
        raise ValueError("a\0\ud800")
    return "a\0"


@task(backend="patient", queue_name="letters", takes_context=True)
def fail_once(context: Any) -> str:
    if context.attempt == 1:
        raise ValueError("not yet")
    return "sent"


@task(backend="exact", queue_name="exact")
def ship(order: int, gate: str) -> int:
    Shipment.objects.create(order=order, receive=0)
    Path(gate).with_suffix(".begun").touch()
    while Path(gate).exists():
        Event().wait(0.01)
    return order
