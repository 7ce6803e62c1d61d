"""Calls of SQS's actions over HTTP, on connections that are kept."""

import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec

from skipmq.client import tracing
from skipmq.client.errors import ClientError
from skipmq.client.signing import Key, headers

# The answer to a receive that waits comes within a second of its wait.
_SECONDS = 10.0
_SERVER_ERROR, _OK = 500, 200
# A call that was refused so has not been executed.
BUSY = {"RequestThrottled", "ThrottlingException", "OverLimit", "KmsThrottled"}


class UnavailableError(Exception):
    """The broker did not answer, or not now: the same call may succeed later.

    `code` and `message` are those of its answer, where it was one of SQS.
    """

    def __init__(self, text: str, code: str = "", message: str = "") -> None:
        super().__init__(text)
        self.code, self.message = code, message


class RefusedError(ClientError):
    """The broker refused a call, with the code and the message of an error of SQS."""

    def __init__(self, text: str, code: str, message: str) -> None:
        super().__init__(text)
        self.code, self.message = code, message


class Caller:
    """Calls the actions at a URL; of any thread, each on a connection of its own meanwhile.

    An answer may take `seconds`; `certificate` are the files of a certificate to show and of its
    key, "" if the first has both; `key` signs, or without it that of AWS's variables. Raises
    ClientError for a URL that is no address, and for files that cannot be used.
    """

    def __init__(
        self,
        url: str,
        seconds: float = _SECONDS,
        certificate: tuple[str, str] | None = None,
        key: Key | None = None,
    ) -> None:
        if "@" in url:
            raise ClientError(
                "write the broker's URL without a user and a password: an access key is not part of"
                " it"
            )
        if (host := _host(url)) is None:
            raise ClientError(f"{url} is not a broker's URL: write https://HOST:PORT")
        self.url, self._host, self._seconds, self._key = url, host, seconds, key
        self._tls = ssl.create_default_context() if url.startswith("https:") else None
        if certificate is not None:
            _show(self._tls, url, *certificate)
        self._idle: list[HTTPConnection] = []
        self._is_closed = False
        self._urls: dict[tuple[str, str | None, str | None], str] = {}

    def call(self, action: str, request: dict[str, Any], region: str | None = None) -> Any:
        """Return the answer to an action, of SQS or `SkipMQ.NAME`.

        Raises RefusedError or UnavailableError, and ClientError for the answer of another server.
        """
        body = msgspec.json.encode(request)
        kept = self._idle.pop() if self._idle else None
        connection = kept or self._connection()
        target = action if "." in action else f"AmazonSQS.{action}"
        sent = dict(headers(self._host, target, body, region, self._key)) | tracing.carried()
        try:
            try:
                status, text = self._exchange(connection, body, sent)
            except (ConnectionError, HTTPException):
                connection.close()
                if kept is None:
                    raise
                connection = self._connection()  # The other side had closed the kept one.
                status, text = self._exchange(connection, body, sent)
        except (OSError, HTTPException) as error:
            connection.close()
            raise UnavailableError(f"{self.url} does not answer: {error!r}") from error
        self._idle.append(connection)
        if self._is_closed:
            self.close()  # Meanwhile.
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
                    f"{self.url} has no queue {name!r} in this account and region: create it, or"
                    " write Queue(…, account=…, region=…)",
                    error.code,
                    error.message,
                ) from error
            self._urls[place] = answer["QueueUrl"]
        return self._urls[place]

    def close(self) -> None:
        """Close the connections that are not in use, and the others after their use."""
        self._is_closed = True
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
        members = answer if isinstance(answer, dict) else {}
        code = str(members.get("__type", "")).rpartition("#")[2]
        message = str(members.get("message", ""))
        error = f"{self.url} answered {action} with {status} {code}: {message}"
        if status >= _SERVER_ERROR or code in BUSY:
            raise UnavailableError(error, code, message)
        if not code:
            raise ClientError(f"{self.url} is not a broker: it answered {action} with {status}")
        raise RefusedError(error, code, message)

    def _exchange(
        self, connection: HTTPConnection, body: bytes, sent: dict[str, str]
    ) -> tuple[int, bytes]:
        is_new = connection.sock is None
        if is_new:
            connection.connect()
            connection.sock.settimeout(self._seconds)
        connection.request("POST", "/", body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _show(tls: ssl.SSLContext | None, url: str, certificate: str, key: str) -> None:
    """Show a certificate in handshakes; raise ClientError."""
    if tls is None:
        raise ClientError(f"{url} takes no certificate: write https://, or leave {certificate} out")
    try:
        tls.load_cert_chain(certificate, key or None)
    except OSError as error:  # Also of ssl.
        reason = error.strerror or "not a certificate and its key in PEM"
        raise ClientError(
            f"the client certificate {certificate} cannot be used ({reason}): name its PEM file,"
            " and its key's"
        ) from error


def _host(url: str) -> str | None:
    """Return host and port of a broker's URL; None for a text that is none."""
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or parts.path.strip("/") or parts.query:
        return None
    return parts.netloc if parts.hostname and has_port else None
