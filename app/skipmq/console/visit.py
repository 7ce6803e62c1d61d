"""A request to the console: its identity, and the actions that it runs.

Actions run on the node's event loop, through the same coroutine as those of SQS clients.
"""

import asyncio
from collections.abc import Coroutine
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import flask
import msgspec

from skipmq.actions import access
from skipmq.console.masking import Mask
from skipmq.protocol import errors
from skipmq.protocol.call import Call, Request
from skipmq.protocol.codec import REQUESTS, TOPIC_REQUESTS
from skipmq.protocol.identity import Identity, QueueName, TopicName
from skipmq.server.answer import Broker

T = TypeVar("T")
# Timeout of a page's actions in seconds, which is shorter than that of a client's requests.
TIMEOUT = 8.0
_MAX_PAGE = 100_000


class ListPage(NamedTuple):
    """The page of a list that a request asks for, of `size` rows."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        """Return the number of rows before it."""
        return (self.number - 1) * self.size

    def shown(self, matches: int) -> dict[str, int]:
        """Return the variables of the template's `paging`."""
        return {"matches": matches, "page": self.number, "pages": -(-matches // self.size)}


class Visit:
    """The context of a view, which exists during its request."""

    def __init__(
        self, broker: Broker, loop: asyncio.AbstractEventLoop, request: Request, identity: Identity
    ) -> None:
        self.broker, self.request, self.identity = broker, request, identity
        self._loop = loop
        # Of the fields in SKIPMQ_CONSOLE_MASK, with what masking may take for one page.
        self.mask = Mask(broker.node.settings.masked_fields)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the node's event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def act(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Run an action as the signed-in identity; return its result, binary values in base64.

        Fields of messages in SKIPMQ_CONSOLE_MASK are masked, and no filter may read them.
        Parameters that are None are omitted. Raises errors.SqsError.
        """
        self.mask.check_filter(parameters)
        call = self._call(action, parameters)
        result: dict[str, Any] = msgspec.to_builtins(self.run(self.broker.act(call)) or {})
        for members, masked in (("Messages", self.mask.message), ("Tasks", self.mask.task)):
            if members in result:
                result[members] = [masked(each) for each in result[members]]
        return result

    def attempt(
        self, action: str, **parameters: Any
    ) -> tuple[dict[str, Any], errors.SqsError | None]:
        """Run an action; return its result and None, or an empty result and its error."""
        try:
            return self.act(action, **parameters), None
        except errors.SqsError as error:
            return {}, error

    def read(
        self, action: str, *refusals: type[errors.SqsError], **parameters: Any
    ) -> tuple[dict[str, Any], errors.SqsError | None]:
        """Run an action; return its result and None, or an empty result and why it was refused.

        Raises the errors.SqsError that are neither AccessDenied nor one of `refusals`.
        """
        result, error = self.attempt(action, **parameters)
        if error is None or isinstance(error, (errors.AccessDenied, *refusals)):
            return result, error
        raise error

    def clock(self) -> float:
        """Return the database's time in seconds since 1970."""
        node = self.broker.node
        return self.run(node.database.clock(min(node.deadline(), monotonic() + TIMEOUT)))

    def rights(self, name: str, *permissions: str) -> frozenset[str]:
        """Return which of these permissions the signed-in identity has on a queue."""
        call = self._call("GetQueueUrl", {"QueueName": name})
        queue = QueueName(self.identity.account, self.identity.region, name)
        return self.run(access.permitted(self.broker.node, call, queue, permissions))

    def may_list(self, region: str | None = None) -> bool:
        """Return whether the signed-in identity may list queues, here or in another region."""
        return self.may("ListQueues", region)

    def may(self, permission: str, region: str | None = None) -> bool:
        """Return whether the signed-in identity has a permission on all queues, or topics."""
        kind = TopicName if permission in TOPIC_REQUESTS else QueueName
        every = kind(self.identity.account, region or self.identity.region, "*")
        return access.allows(self.broker.node, self._call("ListQueues", {}), permission, every, "")

    def places(self, limit: int) -> list[tuple[str, str, int]]:
        """Return up to `limit` accounts and regions with queues that the identity may list.

        Each has the number of its queues.
        """
        node, is_signed = self.broker.node, self.identity.key_id is not None
        account = self.identity.account if is_signed else None
        deadline = min(node.deadline(), monotonic() + TIMEOUT)
        found = self.run(node.queues.places(None, deadline, account, limit))
        return [each for each in found if not is_signed or self.may_list(each[1])]

    def arn(self, name: str) -> str:
        """Return the ARN of a queue in the account and region of the session."""
        return QueueName(self.identity.account, self.identity.region, name).arn

    def _call(self, action: str, parameters: dict[str, Any]) -> Call:
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            struct = msgspec.convert(given, (REQUESTS | TOPIC_REQUESTS)[action])
        except msgspec.ValidationError as error:
            raise errors.InvalidParameterValueException(f"{error}.") from error
        deadline = min(self.broker.node.deadline(), monotonic() + TIMEOUT)
        return Call(action, struct, self.request, self.identity, deadline)


def current() -> Visit:
    """Return the visit of the current request."""
    visit: Visit = flask.g.visit
    return visit


def requested_page(size: int) -> ListPage:
    """Return the page that the current request asks for by `page`, else the first."""
    return ListPage(min(max(flask.request.args.get("page", 1, int), 1), _MAX_PAGE), size)


def whole_number(field: str) -> int | None:
    """Return a form field as an integer, or None if it is empty.

    Raises errors.InvalidParameterValueException.
    """
    text = flask.request.form.get(field, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.InvalidParameterValueException(
            f"Value {errors.shown(text)} for {field} is invalid. Reason: Must be an integer."
        ) from None


def text(field: str) -> str | None:
    """Return a form field with LF line ends (forms send CR LF), or None if it is empty."""
    return flask.request.form.get(field, "").replace("\r\n", "\n") or None
