"""What the codecs exchange: the request as it came in, the call it means, the response to send."""

import re
from typing import Any, NamedTuple, Protocol

from skipmq.model import Identity

_ANYBODY = Identity()
_QUEUE_PATH = re.compile(r"/[^/]+/[^/]+/?")


class Headers(Protocol):
    """Headers by name, in any case: all that the codecs ask of a server's own header type."""

    def get(self, name: str, /) -> str | None:
        """Return the header's value, or None when it was not sent."""


class Request(NamedTuple):
    """An HTTP request before anybody has looked into it.

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


class Call(NamedTuple):
    """An SQS action with its parameters, by the member names of AWS's JSON model.

    The codecs do not know who calls: `identity` is for the view to fill in.
    """

    action: str
    parameters: dict[str, Any]
    request: Request
    identity: Identity = _ANYBODY


class Response(NamedTuple):
    """An HTTP response, ready to be written."""

    status: int
    headers: dict[str, str]
    body: bytes


def speaks_json(request: Request) -> bool:
    """Tell whether the request, and so its response, is on the AWS JSON wire."""
    if request.headers.get("X-Amz-Target") is not None:
        return True
    content_type = request.headers.get("Content-Type")
    return content_type is not None and content_type.lower().startswith("application/x-amz-json")


def queue_url(request: Request) -> str | None:
    """Return the URL of the queue that the path names, or None when it names none.

    The PHP SDK and the legacy protocol post to the queue itself and may leave QueueUrl out.
    """
    if _QUEUE_PATH.fullmatch(request.path) is None:
        return None
    return request.base_url + request.path.rstrip("/")


def response_headers(request: Request, content_type: str, status: int = 200) -> dict[str, str]:
    """Return the headers that every response carries, whatever the wire."""
    headers = {"Content-Type": content_type, "x-amzn-RequestId": request.request_id}
    if status == 503:  # noqa: PLR2004 - Service Unavailable: the same call may succeed soon.
        headers["Retry-After"] = "1"
    return headers
