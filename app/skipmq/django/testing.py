"""What tests of a Django project look at: messages that it has sent, and its consumers' work."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from skipmq import Queue
from skipmq.client.errors import ClientError
from skipmq.django import configuration, peeking, worker
from skipmq.testing.messages import Message, Messages

_PAGE = 1_000


def messages(queue: str | Queue[Any]) -> Messages:
    """Return all messages of a queue, in the order in which they were sent; none is received.

    Those that the test's own transaction has sent are among them. Raises ClientError.
    """
    target = Queue(queue) if isinstance(queue, str) else queue
    alias = configuration.database()
    found: list[peeking.Peeked] = []
    place: str | None = None
    while True:
        page = peeking.messages(alias, target, limit=_PAGE, after=place)
        found += page
        if len(page) < _PAGE:
            return Messages(map(_message, sorted(found, key=lambda each: each.number)))
        place = page[-1].place


def drain(*labels: str, timeout: float = 30.0) -> Counter[str]:
    """Run the project's consumers, or those of some apps, until no message is visible.

    Raises what a handler raised; TimeoutError after `timeout` seconds; ClientError in a
    django.test.TestCase, whose transaction no consumer can look into.
    """
    alias = configuration.database()
    if connections[alias].in_atomic_block:
        raise ClientError(
            "consumers see no message of a transaction that is open: drain() needs a"
            " django.test.TransactionTestCase, or @pytest.mark.django_db(transaction=True)"
        )
    app = worker.app(labels)
    # Whatever database an App names: a test works on its own.
    app.dsn = configuration.dsn(alias)
    # A connection that stays open would keep the database of tests from being dropped.
    app.consumers = [
        replace(each, handler=(_aclosing if each.is_async else _closing)(each.handler))
        for each in app.consumers
    ]
    return app.drain(timeout=timeout)


def _closing(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    def closing(*arguments: Any) -> Any:
        try:
            return handler(*arguments)
        finally:
            connections.close_all()

    return closing


def _aclosing(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    async def closing(*arguments: Any) -> Any:
        try:
            return await handler(*arguments)
        finally:
            await sync_to_async(connections.close_all)()

    return closing


def _message(found: peeking.Peeked) -> Message:
    system = {
        "MessageGroupId": found.group,
        "MessageDeduplicationId": found.deduplication_id,
        "ApproximateReceiveCount": found.receive_count,
    }
    return Message.read(
        {
            "Body": found.body,
            "MessageAttributes": json.loads(found.attributes or "{}"),
            "MessageId": found.message_id,
            "Attributes": system,
            "State": found.state,
            "VisibleInSeconds": found.visible_in,
        }
    )
