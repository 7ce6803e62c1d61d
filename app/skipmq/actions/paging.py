"""Pages of queue URLs, and where the next one begins."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from skipmq import errors, limits
from skipmq.actions import checks
from skipmq.model import QueueName
from skipmq.node import Node
from skipmq.protocol import Call


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` queues, from the one after `after` on; `counted` if a size was given."""

    after: str
    limit: int
    counted: bool

    def cut(
        self, node: Node, call: Call, account: str, names: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the URLs of the page, and the token if there is more and a size was given."""
        region = call.identity.region
        urls = [queue_url(node, call, QueueName(account, region, n)) for n in names[: self.limit]]
        if not self.counted or len(names) <= self.limit:
            return urls, {}
        return urls, {"NextToken": token(names[self.limit - 1])}


def of(call: Call) -> Page:
    """Return the page that a call asks for with MaxResults and NextToken."""
    most = call.parameters.MaxResults
    if most is not None and not 1 <= most <= limits.LIST_RESULTS:
        raise checks.invalid(
            most,
            "MaxResults",
            f"MaxResults must be an integer between 1 and {limits.LIST_RESULTS}.",
        )
    return Page(after(call), most or limits.LIST_RESULTS, most is not None)


def queue_url(node: Node, call: Call, queue: QueueName) -> str:
    """Return the URL under which the client reaches a queue."""
    base = node.settings.public_url.rstrip("/") or call.request.base_url
    return f"{base}/{queue.account}/{queue.name}"


def token(place: str) -> str:
    """Return the NextToken of the page that begins after a place."""
    return urlsafe_b64encode(place.encode()).decode()


def after(call: Call) -> str:
    """Return the place that a call's NextToken stands for, empty when it has none."""
    try:
        given = call.parameters.NextToken or ""
        return b64decode(given.encode(), altchars=b"-_", validate=True).decode()
    except ValueError as error:
        raise errors.InvalidParameterValueException("Invalid or expired next token.") from error
