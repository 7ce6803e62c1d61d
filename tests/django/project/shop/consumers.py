import threading
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from shop.models import Shipment
from shop.orders import ORDERS
from skipmq import App, Context, Queue, Retry
from skipmq.django import atomic

app = App()
SOON = Retry.backoff(0, most=0)


@app.consumer(ORDERS, visibility=2, retry=SOON)
def ship(body: dict[str, Any], context: Context) -> None:
    with atomic(context, using=body.get("using")):
        receive = context.message.receive_count
        Shipment.objects.create(order=body["order"], receive=receive)
        if body.get("fails") or (body.get("fails_once") and receive == 1):
            raise ValueError(body.get("fails") or body["fails_once"])
        if gate := body.get("gate"):
            Path(gate).with_suffix(".begun").touch()
            while Path(gate).exists():
                threading.Event().wait(0.01)


def note_session(body: str, context: Context) -> None:
    # In no transaction, whose end would close a connection that broke.
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        (pid,) = cursor.fetchone()
    with atomic(context):
        Shipment.objects.create(order=int(body), receive=pid)


@app.consumer(Queue("sessions", str), visibility=2, retry=SOON)
def session(body: str, context: Context) -> None:
    note_session(body, context)


@app.consumer(Queue("async-sessions", str), visibility=2, retry=SOON)
async def async_session(body: str, context: Context) -> None:
    await sync_to_async(note_session)(body, context)
