"""Orders and their messages: in one transaction."""

from django.db import transaction

from shop.models import Order
from skipmq import Queue

ORDERS = Queue("orders", dict)


class RefusedError(Exception):
    pass


def place(item: str, *, refuse: bool = False, **more: object) -> None:
    with transaction.atomic():
        order = Order.objects.create(item=item)
        ORDERS.send({"order": order.pk, **more}, using="default")
        if refuse:
            raise RefusedError
