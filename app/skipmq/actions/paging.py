"""Pages of queue URLs, and NextToken."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipmq.broker.node import Node
from skipmq.protocol import errors, limits
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_INVALID = "Invalid or expired next token."


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` queues, starting after `after`; `counted` if the call has MaxResults."""

    after: str
    limit: int
    counted: bool

    def cut(
        self, node: Node, call: Call, account: str, names: Sequence[str]
    ) -> tuple[list[str], str | None]:
        """Return the URLs of the page, and NextToken if there are more and the page is counted."""
        region = call.identity.region
        urls = [queue_url(node, call, QueueName(account, region, n)) for n in names[: self.limit]]
        if not self.counted or len(names) <= self.limit:
            return urls, None
        return urls, token(names[self.limit - 1])


def page(call: Call) -> Page:
    """Return the page that MaxResults and NextToken of a call select."""
    limit = call.parameters.MaxResults
    if limit is not None and not 1 <= limit <= limits.LIST_RESULTS:
        raise errors.invalid(
            limit,
            "MaxResults",
            f"MaxResults must be an integer between 1 and {limits.LIST_RESULTS}.",
        )
    return Page(after(call), limit or limits.LIST_RESULTS, limit is not None)


def queue_url(node: Node, call: Call, queue: QueueName) -> str:
    """Return the URL of a queue for the client."""
    base = node.settings.public_url.rstrip("/") or call.request.base_url
    return f"{base}/{queue.account}/{queue.name}"


def token(place: str) -> str:
    """Return the NextToken of the page that starts after a place."""
    return urlsafe_b64encode(place.encode()).decode()


def after(call: Call, is_place: Callable[[str], object] = bool) -> str:
    """Return the place in a call's NextToken, which is one, or an empty text."""
    try:
        encoded = call.parameters.NextToken or ""
        place = b64decode(encoded.encode(), altchars=b"-_", validate=True).decode()
    except ValueError as error:
        raise errors.InvalidParameterValueException(_INVALID) from error
    if place and not is_place(place):
        raise errors.InvalidParameterValueException(_INVALID)
    return place
