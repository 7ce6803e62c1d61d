"""The transaction of a handler that works with Django's models."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import transaction

from skipmq.django import configuration

if TYPE_CHECKING:
    from skipmq import Context


@contextmanager
def atomic(context: "Context", using: str | None = None) -> Iterator[None]:
    """Run the block in a transaction of Django whose end deletes the message: both, or neither.

    `using` is an alias of the broker's database, by default that of the setting SKIPMQ. Raises
    skipmq.client's LostMessageError, and rolls back, where another has received the message.
    """
    alias = configuration.database() if using is None else using
    # Durable: within another block the delete would wait for that one's end.
    with transaction.atomic(using=alias, durable=True):
        yield
        context.delete(using=alias)
