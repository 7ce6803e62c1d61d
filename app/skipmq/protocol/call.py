"""The records of the codecs: request, call and response."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias

import msgspec

from skipmq.protocol.identity import Identity

# Defaults of type variables came with Python 3.13: to type checkers `Call` alone is `Call[Any]`.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

# Of an action: its struct; of some of our own, the members; None if it has none.
Result: TypeAlias = msgspec.Struct | dict[str, Any] | None

UNIDENTIFIED = Identity()
_QUEUE_PATH = re.compile(r"/[^/]+/[^/]+/?")


class RequestHeaders(Protocol):
    """Headers by name in lower case, of any server."""

    def get(self, name: str, /) -> str | None:
        """Return the header's value, or None if it was not sent."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return all headers; a repeated one may occur more than once, in order."""


# Registers a callback that is called once, on the loop, when the client closes its side of the
# connection; returns a function that unregisters it.
WatchClient = Callable[[Callable[[], None]], Callable[[], None]]


class Request(msgspec.Struct, eq=False):
    """An HTTP request before it is decoded.

    `query` is the raw query string without the question mark, `base_url` the scheme and host that
    the client used, without a trailing slash; `refusal` says why it may be from a page of another
    site, or is empty.
    """

    method: str
    path: str
    headers: RequestHeaders
    query: str
    body: bytes
    base_url: str
    request_id: str
    # The client's address.
    client: str = ""
    watch_client: WatchClient | None = None
    refusal: str = ""
    # Whether the request, and so its response, uses the AWS JSON protocol.
    is_json: bool = False
    # Whether it was found to be for SNS.
    is_sns: bool = False

    def __post_init__(self) -> None:
        self.is_json = self.headers.get("x-amz-target") is not None or (
            (self.headers.get("content-type") or "").lower().startswith("application/x-amz-json")
        )


class Recipient(msgspec.Struct, eq=False):
    """The client that messages are claimed for; `waited` is the seconds of its long poll."""

    waited: float = 0.0
    is_disconnected: bool = False
    # The access key, if any, and the address.
    caller: str | None = None
    address: str = ""
    on_disconnect: Callable[[], None] | None = None

    def disconnect(self) -> None:
        """Mark the client as disconnected."""
        self.is_disconnected = True
        if self.on_disconnect is not None:
            self.on_disconnect()


class Call(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """An SQS action with its parameters, an instance of the action's class.

    Members that were not sent are None. `deadline` is the time of time.monotonic until which the
    call may wait for the database.
    """

    action: str
    parameters: T_co
    request: Request
    identity: Identity = UNIDENTIFIED
    deadline: float = 0.0
    recipient: Recipient = msgspec.field(default_factory=Recipient)


class Response(msgspec.Struct, frozen=True):
    """An HTTP response, ready to be written."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def has_signature(request: Request) -> bool:
    """Return whether a request has a signature to check, in a header or in its URL."""
    return bool(request.headers.get("authorization")) or "X-Amz-Signature" in request.query


def queue_url(request: Request) -> str | None:
    """Return the URL of the queue that the request's path names, or None.

    The PHP SDK and clients of the Query protocol post to the queue's URL and may omit QueueUrl.
    """
    if _QUEUE_PATH.fullmatch(request.path) is None:
        return None
    return request.base_url + request.path.rstrip("/")


def response_headers(
    request: Request, content_type: str, status: int = 200
) -> list[tuple[str, str]]:
    """Return the headers that responses of both protocols have."""
    headers = [("content-type", content_type), ("x-amzn-requestid", request.request_id)]
    if status == 503:  # noqa: PLR2004 - Service Unavailable: the same call may succeed soon.
        headers.append(("retry-after", "1"))
    elif status == 405:  # noqa: PLR2004 - Method Not Allowed.
        headers.append(("allow", "GET, POST"))
    return headers
