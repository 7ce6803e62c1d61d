"""The Flask application: the console's pages, and health and the SQS view for any WSGI server.

Under `skipmq serve` it answers the pages that the door (door.py) hands it, in a thread; under
another server, such as `gunicorn 'skipmq.wsgi:application()'`, it answers everything. Either way a
request of SQS is answered by the one broker, on the one event loop. The console lies above the
server: whoever starts that mounts it.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any, TypeAlias
from uuid import uuid4

import flask
from werkzeug.exceptions import ClientDisconnected, HTTPException

from skipmq import errors, limits, protocol
from skipmq.protocol import Request, Response
from skipmq.server.answer import (
    BODY_BROKEN_OFF,
    BODY_TOO_LONG,
    Broker,
    is_page,
    redirect,
    refusal,
)

_CHUNKS = 64
# The errors of SQS for those of HTTP that Flask raises; for all others the operation is unknown.
_KINDS: dict[int, type[errors.SqsError]] = {
    405: errors.MethodNotAllowed,
    500: errors.InternalFailure,
}
# Under which path pages are mounted.
PAGES = "/console/"
# Answers a request of a client's address by a scheme to a server's address in a version of HTTP.
Pages: TypeAlias = Callable[[Request, str, str, tuple[str, int], str], Response]
# Adds pages to the application of a broker.
Mount: TypeAlias = Callable[[flask.Flask, Broker, asyncio.AbstractEventLoop], None]


def create_app(
    broker: Broker, loop: asyncio.AbstractEventLoop, mount: Mount | None = None
) -> flask.Flask:
    """Return the application of a broker, with pages."""
    app = flask.Flask("skipmq", static_folder=None)
    # No path is answered by sending the client elsewhere; a queue's may end with a slash.
    app.url_map.merge_slashes = app.url_map.strict_slashes = False

    @app.before_request
    def sqs() -> flask.Response | None:
        found = flask.request
        # Werkzeug takes //metrics for /metrics, which a balancer that hides that one does not.
        path = found.environ["PATH_INFO"]
        if is_page(path):
            return None
        query = found.query_string.decode("latin-1")
        leads = redirect(found.method, path, query, found.headers.get("Accept"))
        if leads is not None and mount is not None:
            return _sent(leads)
        request, refused = arrived(broker)
        try:
            request.body = _body()
        except errors.SqsError as error:
            return _sent(protocol.encode_error(request, refused or error))
        if refused is not None:
            return _sent(protocol.encode_error(request, refused))
        return _sent(asyncio.run_coroutine_threadsafe(broker.answer(request), loop).result())

    _add_health(app, broker, loop)
    if mount is not None:
        mount(app, broker, loop)

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> flask.Response:
        with suppress(errors.SqsError):
            _body()
        kind = _KINDS.get(error.code or 0, errors.UnknownOperationException)
        return _sent(protocol.encode_error(_request(broker), kind()))

    return app


def _add_health(app: flask.Flask, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
    @app.errorhandler(errors.AccessDenied)
    def denied(error: errors.AccessDenied) -> flask.Response:
        return _sent(protocol.encode_error(_request(broker), error))

    @app.get("/health/live", strict_slashes=True)
    def live() -> dict[str, str]:
        broker.check_browser(_request(broker))
        return {"status": "live"}

    @app.get("/health/ready", strict_slashes=True)
    def ready() -> tuple[dict[str, str], int]:
        broker.check_browser(_request(broker))
        status, found = asyncio.run_coroutine_threadsafe(broker.health(), loop).result()
        return found, status


def bridge(app: flask.Flask) -> Pages:
    """Return what answers a request that came over no WSGI server, by Flask."""

    def answer(
        request: Request, peer: str, scheme: str, server: tuple[str, int], version: str
    ) -> Response:
        environ = {
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": request.path.encode().decode("latin-1"),
            "QUERY_STRING": request.query,
            "REMOTE_ADDR": peer,
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
            "SERVER_PROTOCOL": f"HTTP/{version}",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scheme,
            "wsgi.input": BytesIO(request.body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            **_variables(request.headers.items()),
            "CONTENT_LENGTH": str(len(request.body)),
        }
        environ.pop("HTTP_TRANSFER_ENCODING", None)  # Werkzeug would read nothing.
        response = flask.Response.from_app(app, environ)
        headers = [
            (name.lower(), value)
            for name, value in response.headers.items()
            if name.lower() != "content-length"  # The door's.
        ]
        return Response(response.status_code, headers, response.get_data())

    return answer


class _Headers:
    """The headers of a request, by name in lower case."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def get(self, name: str, /) -> str | None:
        """Return the header's value, or None when it was not sent."""
        return self._environ.get(_variable(name))

    def items(self) -> Iterator[tuple[str, str]]:
        """Return all headers; the values of one that was sent twice are joined by a comma."""
        for variable, value in self._environ.items():
            if variable.startswith("HTTP_"):
                yield variable[5:].replace("_", "-").lower(), value
            elif variable in ("CONTENT_TYPE", "CONTENT_LENGTH") and value:
                yield variable.replace("_", "-").lower(), value


def _variables(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers as WSGI has them; those sent twice are joined.

    WSGI has one name for `X_Forwarded_For` and `X-Forwarded-For`, and proxies write only the
    latter: what has an underline is left out.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if "_" not in name:
            variable = _variable(name)
            separator = "; " if variable == "HTTP_COOKIE" else ","
            found[variable] = f"{found[variable]}{separator}{value}" if variable in found else value
    return found


def _variable(header: str) -> str:
    """Return under which name WSGI has a header."""
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


def arrived(broker: Broker) -> tuple[Request, errors.SqsError | None]:
    """Return the request without its body, and what HTTP has against it."""
    environ = flask.request.environ
    version = environ["SERVER_PROTOCOL"].removeprefix("HTTP/")
    request = _request(broker)
    return request, refusal(request.method, version, "HTTP_HOST" in environ)


def _request(broker: Broker) -> Request:
    found = flask.request
    headers = _Headers(found.environ)
    peer, host = found.remote_addr or "", found.headers.get("Host")
    origin = broker.origin(peer, found.scheme, host, lambda name: headers.get(name) or "")
    return Request(
        method=found.method,
        path=found.path,
        headers=headers,
        query=found.query_string.decode("latin-1"),
        body=b"",
        base_url=broker.base_url(origin.scheme, origin.host),
        request_id=str(uuid4()),
        client=origin.client,
    )


def _body() -> bytes:
    """Return the body of the request, read to the end: before that a client may not listen.

    Raises errors.InvalidParameterValueException when it is longer than any valid one, and
    errors.SerializationException when the client broke off: what it sent may look complete.
    """
    stream = flask.request.stream
    try:
        body = stream.read(limits.REQUEST_BYTES + 1)
        if len(body) > limits.REQUEST_BYTES:
            for _ in range(_CHUNKS):
                if not stream.read(limits.MESSAGE_BYTES):
                    break
            raise errors.InvalidParameterValueException(BODY_TOO_LONG)
    except (OSError, ClientDisconnected) as error:
        raise errors.SerializationException(BODY_BROKEN_OFF) from error
    length = flask.request.content_length
    if length is not None and len(body) < length:
        raise errors.SerializationException(BODY_BROKEN_OFF)
    return body


def _sent(response: Response) -> flask.Response:
    return flask.Response(response.body, response.status, response.headers)
