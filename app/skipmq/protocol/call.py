"""What the codecs exchange: the request as it came in, the call it means, the response to send."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol

import msgspec

from skipmq.model import Identity, Need

# Defaults of type variables came with Python 3.13: to type checkers `Call` alone is `Call[Any]`.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

_UNIDENTIFIED = Identity()
_QUEUE_PATH = re.compile(r"/[^/]+/[^/]+/?")


class Headers(Protocol):
    """Headers by name in lower case: all that is asked of a server's own header type."""

    def get(self, name: str, /) -> str | None:
        """Return the header's value, or None when it was not sent."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return all headers; one that was sent twice may stand there twice, in its order."""


# Has a function called once, on the loop, when the client closes its side of the connection;
# returns what ends the watch.
WatchClient = Callable[[Callable[[], None]], Callable[[], None]]


@dataclass(slots=True)
class Request:
    """An HTTP request before it is decoded.

    `query` is the raw query string without the question mark, `base_url` the scheme and host under
    which the client reached us, without a trailing slash.
    """

    method: str
    path: str
    headers: Headers
    query: str
    body: bytes
    base_url: str
    request_id: str
    # The client's address.
    client: str = ""
    watch_client: WatchClient | None = None
    # Whether the request, and so its response, is on the AWS JSON wire.
    is_json: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_json = self.headers.get("x-amz-target") is not None or _is_json(
            self.headers.get("content-type")
        )


@dataclass(slots=True)
class Call(Generic[T_co]):
    """An SQS action with its parameters, of the action's class.

    A member that was not sent is None. The server sets `identity`, not the codecs. `deadline` is
    until when the call may wait for a database, as a time of time.monotonic; `waited` is for how
    many seconds it waited for a message; `origins` are, for a redrive without a destination, the
    ARNs of queues that its caller may send to, where not all; `needs` are the permissions that it
    takes, on the queue of its QueueUrl first.
    """

    action: str
    parameters: T_co
    request: Request
    identity: Identity = _UNIDENTIFIED
    deadline: float = 0.0
    waited: float = 0.0
    origins: list[str] | None = None
    needs: Sequence[Need] | None = None


class Response(msgspec.Struct, frozen=True):
    """An HTTP response, ready to be written."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def queue_url(request: Request) -> str | None:
    """Return the URL of the queue that the path names, or None when it names none.

    The PHP SDK and the legacy protocol post to the queue itself and may leave QueueUrl out.
    """
    if _QUEUE_PATH.fullmatch(request.path) is None:
        return None
    return request.base_url + request.path.rstrip("/")


def response_headers(
    request: Request, content_type: str, status: int = 200
) -> list[tuple[str, str]]:
    """Return the headers that every response carries, whatever the wire."""
    headers = [("content-type", content_type), ("x-amzn-requestid", request.request_id)]
    if status == 503:  # noqa: PLR2004 - Service Unavailable: the same call may succeed soon.
        headers.append(("retry-after", "1"))
    elif status == 405:  # noqa: PLR2004 - Method Not Allowed.
        headers.append(("allow", "GET, POST"))
    return headers


def _is_json(content_type: str | None) -> bool:
    return content_type is not None and content_type.lower().startswith("application/x-amz-json")
