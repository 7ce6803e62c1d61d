"""Calls of SQS's actions over HTTP, on connections that are kept."""

import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec

from skipmq.client import tracing
from skipmq.client.errors import ClientError
from skipmq.client.signing import headers

# The answer to a receive that waits comes within a second of its wait.
_SECONDS = 10.0
_SERVER_ERROR, _OK = 500, 200
_BUSY = {"RequestThrottled", "ThrottlingException", "OverLimit", "KmsThrottled"}


class UnavailableError(Exception):
    """The broker did not answer, or not now: the same call may succeed later."""


class RefusedError(ClientError):
    """The broker refused a call, with the code of an error of SQS."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Caller:
    """Calls the actions at a URL; of any thread, each on a connection of its own meanwhile."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.path.strip("/") or parts.query:
            raise ClientError(f"{url} is no address of a broker: give it as https://HOST:PORT")
        self.url, self._host = url, parts.netloc.rpartition("@")[2]
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: list[HTTPConnection] = []
        self._urls: dict[tuple[str, str | None, str | None], str] = {}

    def call(self, action: str, request: dict[str, Any], region: str | None = None) -> Any:
        """Return the answer to an action; raise RefusedError or UnavailableError."""
        body = msgspec.json.encode(request)
        kept = self._idle.pop() if self._idle else None
        connection = kept or self._connection()
        sent = dict(headers(self._host, action, body, region)) | tracing.carried()
        try:
            try:
                status, text = _exchange(connection, body, sent)
            except (ConnectionError, HTTPException):
                connection.close()
                if kept is None:
                    raise
                connection = self._connection()  # The other side had closed the kept one.
                status, text = _exchange(connection, body, sent)
        except (OSError, HTTPException) as error:
            connection.close()
            raise UnavailableError(f"{self.url} does not answer: {error!r}") from error
        self._idle.append(connection)
        return self._answer(action, status, text)

    def queue_url(self, name: str, account: str | None, region: str | None) -> str:
        """Return the URL of a queue, which is asked for once; raise as `call` does."""
        place = (name, account, region)
        if place not in self._urls:
            owner = {"QueueOwnerAWSAccountId": account} if account is not None else {}
            try:
                answer = self.call("GetQueueUrl", {"QueueName": name, **owner}, region)
            except RefusedError as error:
                if error.code != "QueueDoesNotExist":
                    raise
                raise RefusedError(
                    error.code,
                    f"{self.url} has no queue {name!r} in this account and region: create it, or"
                    " say Queue(…, account=…, region=…)",
                ) from error
            self._urls[place] = answer["QueueUrl"]
        return self._urls[place]

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> HTTPConnection:
        if self._tls is not None:
            return HTTPSConnection(self._host, timeout=_SECONDS, context=self._tls)
        return HTTPConnection(self._host, timeout=_SECONDS)

    def _answer(self, action: str, status: int, text: bytes) -> Any:
        try:
            answer = msgspec.json.decode(text) if text else {}
        except msgspec.DecodeError:
            answer = None
        if status == _OK and isinstance(answer, dict):
            return answer
        given = answer if isinstance(answer, dict) else {}
        code = str(given.get("__type", "")).rpartition("#")[2]
        said = f"{self.url} answered {action} with {status} {code}: {given.get('message', '')}"
        if status >= _SERVER_ERROR or code in _BUSY:
            raise UnavailableError(said)
        if not code:
            raise ClientError(f"{self.url} is no broker: it answered {action} with {status}")
        raise RefusedError(code, said)


def _exchange(connection: HTTPConnection, body: bytes, sent: dict[str, str]) -> tuple[int, bytes]:
    connection.request("POST", "/", body, sent)
    answer = connection.getresponse()
    return answer.status, answer.read()
