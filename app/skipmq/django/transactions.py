"""The transaction of a handler that works with Django's models."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import transaction

from skipmq.client.errors import ClientError
from skipmq.django import configuration

if TYPE_CHECKING:
    from skipmq import Context


@contextmanager
def atomic(context: "Context", using: str | None = None) -> Iterator[str]:
    """Run the block in a transaction of Django whose end deletes the message: both, or neither.

    It yields the alias, for sends. `using` is an alias of the broker's database, by default that of
    the setting SKIPMQ. Raises skipmq.client's LostMessageError, and rolls back, where another has
    received the message, and ClientError for an alias of another database.
    """
    own = configuration.database()
    alias = own if using is None else using
    if not configuration.is_same(alias, own):
        raise ClientError(
            f"the message is in the database {own!r}, and using={alias!r} is another: no"
            " transaction holds both. Write `with atomic(context):`, and do in it what may be done"
            " twice"
        )
    # Durable: within another block the delete would wait for that one's end.
    with transaction.atomic(using=alias, durable=True):
        yield alias
        context.delete(using=alias)
