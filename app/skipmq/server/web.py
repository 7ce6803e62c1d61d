"""The Flask application: health, metrics, and the SQS view for any WSGI server.

Under `skipmq serve` it answers what the RSGI door hands it, in a thread; under another server, such
as `gunicorn 'skipmq.wsgi:application()'`, it answers everything. Either way a request of SQS
is answered by the one broker, on the one event loop. The console lies above the server: whoever
starts that mounts it.
"""

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import Any, TypeAlias
from uuid import uuid4

import flask
from werkzeug.exceptions import ClientDisconnected, HTTPException

from skipmq import config, errors, limits, logs, protocol
from skipmq.database import address, schema
from skipmq.delivery import Upkeep
from skipmq.exposition import Exposition
from skipmq.node import Node
from skipmq.protocol import Request, Response
from skipmq.server.answer import BODY_BROKEN_OFF, BODY_TOO_LONG, METHODS, Broker, refusal
from skipmq.server.janitor import Janitor
from skipmq.server.request_trace import tracing

_CHUNKS = 64
# The errors of SQS for those of HTTP that Flask raises; for all others the operation is unknown.
_KINDS: dict[int, type[errors.SqsError]] = {
    405: errors.MethodNotAllowed,
    500: errors.InternalFailure,
}
# Under which path pages are mounted.
PAGES = "/console/"
# Says, as a status of HTTP and a reason, whether a node should get requests.
Health: TypeAlias = Callable[[], Coroutine[Any, Any, tuple[int, dict[str, str]]]]
# Adds pages to the application of a broker.
Mount: TypeAlias = Callable[[flask.Flask, Broker, asyncio.AbstractEventLoop], None]


def application(mount: Mount | None = None) -> flask.Flask:
    """Return the application of a node with its janitor, for a WSGI server that has threads.

    Raises config.ConfigError, schema.SchemaError, errors.ServiceUnavailable.
    """
    settings = address.checked(config.load()).settings
    if not settings.database_url:
        raise config.ConfigError(["SKIPMQ_DATABASE_URL: a WSGI server needs a database of its own"])
    if not settings.auth:
        # Which address the server listens on is not known here.
        settings = replace(settings, auth="on")
    if settings.checks_signatures and not settings.master_key:
        raise config.ConfigError(
            ["SKIPMQ_MASTER_KEY: signatures need one; SKIPMQ_AUTH=off allows every caller"]
        )
    logs.configure(settings)
    schema.check(settings.database_url)
    traces = tracing(settings, str(os.getpid()))
    if traces is not None:
        atexit.register(traces.close)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="broker", daemon=True).start()

    async def start() -> Broker:
        node = Node(settings, settings.database_url, tracing=traces)
        await node.open()
        node.start(Janitor(Upkeep(node.database), settings))
        return Broker(node)

    broker = asyncio.run_coroutine_threadsafe(start(), loop).result()
    return create_app(broker, loop, mount=mount)


def create_app(
    broker: Broker,
    loop: asyncio.AbstractEventLoop,
    metrics: Exposition | None = None,
    mount: Mount | None = None,
) -> flask.Flask:
    """Return the application of a broker, with its metrics where they are counted, and pages."""
    app = flask.Flask("skipmq", static_folder=None)
    # No path is answered by sending the client elsewhere; a queue's may end with a slash.
    app.url_map.merge_slashes = app.url_map.strict_slashes = False

    @app.route("/", methods=METHODS, provide_automatic_options=False)
    @app.route("/<account>/<queue>", methods=METHODS, provide_automatic_options=False)
    def sqs(account: str = "", queue: str = "") -> flask.Response:
        del account, queue  # The codec reads the path itself.
        request, refused = arrived(broker)
        try:
            request.body = _body()
        except errors.SqsError as error:
            return _sent(protocol.encode_error(request, refused or error))
        if refused is not None:
            return _sent(protocol.encode_error(request, refused))
        return _sent(asyncio.run_coroutine_threadsafe(broker.answer(request), loop).result())

    _add_probes(app, broker, broker.health, loop, metrics)
    if mount is not None:
        mount(app, broker, loop)

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> flask.Response:
        with suppress(errors.SqsError):
            _body()
        kind = _KINDS.get(error.code or 0, errors.UnknownOperationException)
        return _sent(protocol.encode_error(_request(broker), kind()))

    return app


def probes(
    broker: Broker,
    health: Health,
    loop: asyncio.AbstractEventLoop,
    metrics: Exposition,
) -> flask.Flask:
    """Return the application of a port that shows health and metrics and nothing else."""
    app = flask.Flask("skipmq", static_folder=None)
    _add_probes(app, broker, health, loop, metrics)
    return app


def _add_probes(
    app: flask.Flask,
    broker: Broker,
    health: Health,
    loop: asyncio.AbstractEventLoop,
    metrics: Exposition | None,
) -> None:
    @app.get("/health/live")
    def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/health/ready")
    def ready() -> tuple[dict[str, str], int]:
        status, found = asyncio.run_coroutine_threadsafe(health(), loop).result()
        return found, status

    if metrics is not None:

        @app.get("/metrics")
        def show_metrics() -> flask.Response:
            statistics = asyncio.run_coroutine_threadsafe(broker.statistics(), loop).result()
            text, content_type = metrics.text(flask.request.headers.get("Accept", ""), *statistics)
            return flask.Response(text, content_type=content_type)


def bridge(app: flask.Flask) -> Callable[[Any, bytes], Response]:
    """Return what answers a request of RSGI, of which the body has been read, by Flask."""

    def answer(scope: Any, body: bytes) -> Response:
        host, _, port = scope.server.rpartition(":")
        environ = {
            "REQUEST_METHOD": scope.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": scope.path.encode().decode("latin-1"),
            "QUERY_STRING": scope.query_string,
            "REMOTE_ADDR": scope.client.rpartition(":")[0].strip("[]"),
            "SERVER_NAME": host,
            "SERVER_PORT": port,
            "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scope.scheme,
            "wsgi.input": BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            **{_variable(name): value for name, value in scope.headers.items()},
            "CONTENT_LENGTH": str(len(body)),
        }
        environ.pop("HTTP_TRANSFER_ENCODING", None)  # Werkzeug would read nothing.
        response = flask.Response.from_app(app, environ)
        headers = [(name.lower(), value) for name, value in response.headers.items()]
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
