"""One request to the console: who makes it, and what it asks the node for.

Everything is asked of the coroutine that also runs the actions of SQS, on the loop of the node.
"""

import asyncio
from collections.abc import Coroutine
from time import monotonic
from typing import Any, TypeVar

import flask
import msgspec

from skipmq import errors
from skipmq.actions import access
from skipmq.console.masking import Mask
from skipmq.model import Identity, QueueName
from skipmq.protocol import REQUESTS, Call, Request
from skipmq.server.answer import Broker

T = TypeVar("T")
# Nobody watches a page load for as long as a client's request may wait for a database.
PATIENCE = 8.0


class Visit:
    """What the view of a page works with; lives as long as its request."""

    def __init__(
        self, broker: Broker, loop: asyncio.AbstractEventLoop, request: Request, identity: Identity
    ) -> None:
        self.broker, self.request, self.identity = broker, request, identity
        self._loop = loop

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the node's loop; return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def act(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Run an action as whoever has signed in; return its result, binary values in base64.

        The fields of messages that SKIPMQ_CONSOLE_MASK names are masked in it. Parameters that are
        None are left out. Raises an errors.SqsError.
        """
        call = self._call(action, parameters)
        result: dict[str, Any] = msgspec.to_builtins(self.run(self.broker.act(call)) or {})
        if "Messages" in result:
            mask = Mask(self.broker.node.settings.masked_fields)
            result["Messages"] = [mask.message(each) for each in result["Messages"]]
        return result

    def attempt(
        self, action: str, **parameters: Any
    ) -> tuple[dict[str, Any], errors.SqsError | None]:
        """Run an action; return its result, or nothing and its error."""
        try:
            return self.act(action, **parameters), None
        except errors.SqsError as error:
            return {}, error

    def rights(self, name: str, *permissions: str) -> frozenset[str]:
        """Return which of these permissions whoever has signed in has on a queue."""
        call = self._call("GetQueueUrl", {"QueueName": name})
        queue = QueueName(self.identity.account, self.identity.region, name)
        return self.run(access.permitted(self.broker.node, call, queue, permissions))

    def may_list(self) -> bool:
        """Tell whether whoever has signed in may list the queues."""
        every = QueueName(self.identity.account, self.identity.region, "*")
        return access.allows(
            self.broker.node, self._call("ListQueues", {}), "ListQueues", every, ""
        )

    def arn(self, name: str) -> str:
        """Return the ARN of a queue of whoever has signed in."""
        return QueueName(self.identity.account, self.identity.region, name).arn

    def _call(self, action: str, parameters: dict[str, Any]) -> Call:
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            struct = msgspec.convert(given, REQUESTS[action])
        except msgspec.ValidationError as error:
            raise errors.InvalidParameterValueException(f"{error}.") from error
        deadline = min(self.broker.node.deadline(), monotonic() + PATIENCE)
        return Call(action, struct, self.request, self.identity, deadline)


def current() -> Visit:
    """Return the visit of the request that is being answered."""
    visit: Visit = flask.g.visit
    return visit


def whole_number(field: str) -> int | None:
    """Return a field of the form as a number, or None when it is empty.

    Raises errors.InvalidParameterValueException.
    """
    text = flask.request.form.get(field, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.InvalidParameterValueException(
            f"Value {errors.shown(text)} for {field} is invalid. Reason: It is no whole number."
        ) from None


def text(field: str) -> str | None:
    """Return a text of the form, or None when it is empty.

    Its lines end as they did when they were typed: forms send CR LF.
    """
    return flask.request.form.get(field, "").replace("\r\n", "\n") or None
