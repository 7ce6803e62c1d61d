"""A client that tells what was refused from what nobody knows the outcome of."""

import http.client
import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from bench.wire import headers

# Longer than a node keeps a request through a failover.
PATIENCE = 40
T = TypeVar("T")


class Refused(Exception):  # noqa: N818 - what the broker did.
    """It was not done, and will not be."""


class Unknown(Exception):  # noqa: N818 - what the client knows.
    """It may have been done, or be done yet."""


class Client:
    """A client with one connection, which tries each request once."""

    def __init__(self, endpoint: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=PATIENCE)

    def call(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer.

        Raises Refused, Unknown.
        """
        answer: dict[str, Any] = json.loads(
            self.post(json.dumps(parameters).encode(), headers(action)) or b"{}"
        )
        return answer

    def post(self, question: bytes, heads: dict[str, str]) -> bytes:
        """Return what a request is answered with.

        Raises Refused, Unknown.
        """
        try:
            if self._connection.sock is None:
                self._connection.connect()
        except OSError as error:
            raise Refused(f"not connected: {error}") from error
        try:
            self._connection.request("POST", "/", question, heads)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unknown(f"{type(error).__name__}: {error}") from error
        if response.status >= http.client.INTERNAL_SERVER_ERROR:
            raise Unknown(f"{response.status} {_told(body)}")
        if response.status != http.client.OK:
            raise Refused(f"{response.status} {_told(body)}")
        return body

    def surely(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to what may be done twice, and is tried as long as it takes.

        Raises Refused.
        """
        return _surely(lambda: self.call(action, **parameters))

    def surely_post(self, question: bytes, heads: dict[str, str]) -> bytes:
        """Do the same with any request."""
        return _surely(lambda: self.post(question, heads))

    def close(self) -> None:
        self._connection.close()


def _surely(ask: Callable[[], T]) -> T:
    for _ in range(9):
        try:
            return ask()
        except Unknown:
            continue
    return ask()


def _told(body: bytes) -> str:
    try:
        document = json.loads(body)
        return f"{document['__type'].rpartition('#')[2]}: {document['message']}"
    except (ValueError, KeyError, TypeError):
        return " ".join(body[:100].decode(errors="replace").split())
