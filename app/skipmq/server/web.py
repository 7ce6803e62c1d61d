"""The Flask application: the console's pages, and health and SQS for any WSGI server.

Under `skipmq serve` the door (door.py) calls it for pages, in a thread; under another server, such
as `gunicorn 'skipmq.wsgi:application()'`, it answers all requests. In both cases the broker answers
SQS requests on one event loop. The console is in a higher layer, and mounted by the caller.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import uuid4

import flask
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.formparser import FormDataParser
from werkzeug.wsgi import get_input_stream

from skipmq.protocol import codec, errors, limits
from skipmq.protocol.call import Request, Response
from skipmq.protocol.query import pairs
from skipmq.server.answer import (
    BODY_INCOMPLETE,
    BODY_TOO_LONG,
    Broker,
    is_page,
    redirect,
    refusal,
)

if TYPE_CHECKING:
    from werkzeug.datastructures import FileStorage

# Chunks of an overlong body that are read and discarded.
_CHUNKS = 64
# SQS's errors for Flask's HTTP errors; all others are unknown operations.
_KINDS: dict[int, type[errors.SqsError]] = {
    405: errors.MethodNotAllowed,
    500: errors.InternalFailure,
}
_FORM = "application/x-www-form-urlencoded"
# The path of pages.
PAGES = "/console/"
# Answers a request; the other arguments are client address, scheme, server address, HTTP version.
Pages: TypeAlias = Callable[[Request, str, str, tuple[str, int], str], Response]


class Mount(Protocol):
    """The pages that a higher layer adds to the application of a broker."""

    def __call__(self, app: flask.Flask, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        """Add the pages."""

    def has_session(self, broker: Broker, request: Request) -> bool:
        """Return whether a request without its body may have a form as long as a message."""


class _FormParser(FormDataParser):
    """Parses forms as the Query protocol does, since Werkzeug's parser lists all escapes."""

    def parse(
        self,
        stream: IO[bytes],
        mimetype: str,
        content_length: int | None,
        options: dict[str, str] | None = None,
    ) -> tuple[IO[bytes], "MultiDict[str, str]", "MultiDict[str, FileStorage]"]:
        """Return the fields of a form; raise errors.InvalidParameterValueException."""
        del content_length, options
        fields: list[tuple[str, str]] = []
        if mimetype == _FORM and (body := stream.read()):
            # A chunked body is cut off at the limit, beyond which only a further read raises.
            stream.read(1)
            fields = pairs(body)
        return stream, MultiDict(fields), MultiDict()


class _PageRequest(flask.Request):
    form_data_parser_class = _FormParser


def create_app(
    broker: Broker, loop: asyncio.AbstractEventLoop, mount: Mount | None = None
) -> flask.Flask:
    """Return the application of a broker, with pages."""
    app = flask.Flask("skipmq", static_folder=None)
    app.request_class = _PageRequest
    # Do not redirect for slashes: a queue's URL may end with one.
    app.url_map.merge_slashes = app.url_map.strict_slashes = False

    @app.before_request
    def sqs() -> flask.Response | None:
        found = flask.request
        # Not found.path, where //metrics is /metrics: a load balancer may block only the latter.
        path = found.environ["PATH_INFO"]
        if is_page(path):
            return None
        query = found.query_string.decode("latin-1")
        redirection = redirect(found.method, path, query, found.headers.get("Accept"))
        if redirection is not None and mount is not None:
            return _flask_response(redirection)
        request, refused = current_request(broker)
        try:
            request.body = _body()
        except errors.SqsError as error:
            return _flask_response(codec.encode_error(request, refused or error))
        if refused is not None:
            return _flask_response(codec.encode_error(request, refused))
        answer = asyncio.run_coroutine_threadsafe(broker.answer(request), loop).result()
        return _flask_response(answer)

    _add_health(app, broker, loop)
    if mount is not None:
        mount(app, broker, loop)

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> flask.Response:
        with suppress(errors.SqsError):
            _body()
        kind = _KINDS.get(error.code or 0, errors.UnknownOperationException)
        return _flask_response(codec.encode_error(_request(broker), kind()))

    return app


def _add_health(app: flask.Flask, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
    @app.errorhandler(errors.AccessDenied)
    def denied(error: errors.AccessDenied) -> flask.Response:
        return _flask_response(codec.encode_error(_request(broker), error))

    @app.get("/health/live", strict_slashes=True)
    def live() -> dict[str, str]:
        broker.check_browser(_request(broker))
        return {"status": "live"}

    @app.get("/health/ready", strict_slashes=True)
    def ready() -> tuple[dict[str, str], int]:
        broker.check_browser(_request(broker))
        status, found = asyncio.run_coroutine_threadsafe(broker.health(), loop).result()
        return found, status


def wsgi_adapter(app: flask.Flask) -> Pages:
    """Return a function that answers a request by Flask, without a WSGI server."""

    def answer(
        request: Request, peer: str, scheme: str, server: tuple[str, int], version: str
    ) -> Response:
        environ = {
            # The door omits the body of an answer to HEAD, and needs its length.
            "REQUEST_METHOD": "GET" if request.method == "HEAD" else request.method,
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
        environ.pop("HTTP_TRANSFER_ENCODING", None)  # With it Werkzeug reads no body.
        response = flask.Response.from_app(app, environ)
        headers = [
            (name.lower(), value)
            for name, value in response.headers.items()
            if name.lower() != "content-length"  # The door sets it.
        ]
        return Response(response.status_code, headers, response.get_data())

    return answer


class _Headers:
    """The headers of a request, by name in lower case."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def get(self, name: str, /) -> str | None:
        """Return the header's value, or None if it was not sent."""
        return self._environ.get(_variable(name))

    def joined(self, name: str, /) -> str:
        """Return the values of a header, which the server has joined by commas."""
        return self.get(name) or ""

    def items(self) -> Iterator[tuple[str, str]]:
        """Return all headers; the values of a repeated one are joined by commas."""
        for variable, value in self._environ.items():
            if variable.startswith("HTTP_"):
                yield variable[5:].replace("_", "-").lower(), value
            elif variable in ("CONTENT_TYPE", "CONTENT_LENGTH") and value:
                yield variable.replace("_", "-").lower(), value


def _variables(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the WSGI variables of headers, with the values of repeated ones joined.

    Headers with an underscore are omitted: `X_Forwarded_For` would have the variable of
    `X-Forwarded-For`, and proxies replace only the latter.
    """
    found: dict[str, str] = {}
    for name, value in headers:
        if "_" not in name:
            variable = _variable(name)
            separator = "; " if variable == "HTTP_COOKIE" else ","
            found[variable] = f"{found[variable]}{separator}{value}" if variable in found else value
    return found


def _variable(header: str) -> str:
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


def current_request(broker: Broker) -> tuple[Request, errors.SqsError | None]:
    """Return Flask's request without its body, and the error of its method or Host header."""
    environ = flask.request.environ
    version = environ["SERVER_PROTOCOL"].removeprefix("HTTP/")
    request = _request(broker)
    is_head = request.method == "HEAD" and is_page(environ["PATH_INFO"])
    method = "GET" if is_head else request.method
    return request, refusal(method, version, "HTTP_HOST" in environ)


def _request(broker: Broker) -> Request:
    found = flask.request
    headers = _Headers(found.environ)
    origin = broker.origin(found.remote_addr or "", found.scheme, headers)
    return Request(
        method=found.method,
        path=found.path,
        headers=headers,
        query=found.query_string.decode("latin-1"),
        body=b"",
        base_url=origin.base_url,
        request_id=str(uuid4()),
        client=origin.client,
        refusal=origin.refusal,
    )


def _body() -> bytes:
    """Return the body of the request, read to the end, until which a client may not read.

    Raises errors.InvalidParameterValueException if it is longer than any valid one, and
    errors.SerializationException if it is incomplete.
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
        raise errors.SerializationException(BODY_INCOMPLETE) from error
    length = flask.request.content_length
    if length is not None and len(body) < length:
        raise errors.SerializationException(BODY_INCOMPLETE)
    return body


def discard_body() -> None:
    """Read a body that is too long for a form to the end, until which a client may not read."""
    with suppress(OSError, HTTPException):
        stream = get_input_stream(
            flask.request.environ, max_content_length=_CHUNKS * limits.MESSAGE_BYTES
        )
        while stream.read(limits.MESSAGE_BYTES):
            pass


def _flask_response(response: Response) -> flask.Response:
    return flask.Response(response.body, response.status, response.headers)
