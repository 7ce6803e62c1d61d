"""The WSGI application: the SQS view, and health.

Flask serves everything. But what the SDKs of AWS send, a POST to / with the action in a header, is
answered before Flask has routed it: of 500 µs that such a request took, Flask took 90.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from time import perf_counter
from typing import Any, TypeAlias

import flask
import structlog
from werkzeug.exceptions import HTTPException
from werkzeug.sansio.utils import get_host

from skipmq import auth, errors, ids, limits, protocol
from skipmq.actions import EVERY
from skipmq.metrics import Metrics
from skipmq.node import Node

log = structlog.get_logger()

Environ: TypeAlias = dict[str, Any]

_METHODS = ["GET", "POST"]
_CHUNKS = 64
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
TOO_LONG = (
    "One or more parameters are invalid. Reason: Message must be shorter than"
    f" {limits.MESSAGE_BYTES} bytes."
)


def create_app(node: Node, metrics: Metrics | None = None) -> flask.Flask:
    """Return the application of a node, with its metrics where they are counted."""
    app = _Application("skipmq", static_folder=None)
    app.node = node
    # No path is answered by sending the client elsewhere; a queue's may end with a slash.
    app.url_map.merge_slashes = app.url_map.strict_slashes = False

    @app.route("/", methods=_METHODS, provide_automatic_options=False)
    @app.route("/<account>/<queue>", methods=_METHODS, provide_automatic_options=False)
    def sqs(account: str = "", queue: str = "") -> flask.Response:
        del account, queue  # The codec reads the path itself.
        if flask.request.method not in _METHODS:
            flask.abort(405)  # HEAD comes along with GET.
        return _sent(_answer(node, flask.request.environ))

    @app.get("/health/live")
    def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/health/ready")
    def ready() -> tuple[dict[str, str], int]:
        reason = node.readiness()
        if reason is not None:
            return {"status": reason}, 503
        try:
            replicated = node.replicated()
        except errors.SqsError as error:  # It went away just now.
            replicated = f"not known: {error.message}"
        return {"status": "ready", "replication": replicated}, 200

    if metrics is not None:

        @app.get("/metrics")
        def numbers() -> flask.Response:
            return flask.Response(metrics.text(), content_type=metrics.content_type)

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> flask.Response:
        environ = flask.request.environ
        with suppress(errors.SqsError):
            _body(environ)
        told = errors.UnknownOperationException(f"{error.code} {error.name}")
        return _sent(protocol.encode_error(_request(node, environ), told))

    return app


class _Application(flask.Flask):
    """Flask, and a way past it."""

    node: Node

    def wsgi_app(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request on the JSON wire at once, and let Flask have the others."""
        if (
            "HTTP_X_AMZ_TARGET" in environ
            and environ["PATH_INFO"] == "/"
            and environ["REQUEST_METHOD"] == "POST"
        ):
            response = _answer(self.node, environ)
            headers = [*response.headers.items(), ("Content-Length", str(len(response.body)))]
            start_response(_STATUS_LINES[response.status], headers)
            return [response.body]
        return super().wsgi_app(environ, start_response)


class _Headers:
    """The headers of a request, by name in any case."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def get(self, name: str, /) -> str | None:
        """Return the header's value, or None when it was not sent."""
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
        return self._environ.get(key)


def _answer(node: Node, environ: Environ) -> protocol.Response:
    """Answer one SQS request: decode, identify, act, encode."""
    began, action = perf_counter(), "?"
    request = _request(node, environ)
    try:
        with node.admission.admitted():
            call = protocol.decode(request._replace(body=_body(environ)))
            identity = auth.identify(request.headers.get("Authorization"), request.query)
            action = call.action
            call = call._replace(identity=identity)
            response = protocol.encode(call, EVERY[action](node, call))
    except errors.Overloaded as error:
        with suppress(errors.SqsError):
            _body(environ)
        response = protocol.encode_error(request, error)
    except errors.SqsError as error:
        response = protocol.encode_error(request, error)
    except Exception:
        log.exception("request failed", request_id=request.request_id, action=action)
        response = protocol.encode_error(request, errors.InternalFailure())
    log.debug(
        "request",
        request_id=request.request_id,
        action=action,
        status=response.status,
        milliseconds=round((perf_counter() - began) * 1000, 1),
    )
    return response


def _body(environ: Environ) -> bytes:
    """Return the body of the request, heard out: before that a client may not listen.

    Raises errors.InvalidParameterValueException when it is longer than any valid one, and
    errors.SerializationException when the client broke off: what it sent may look complete.
    """
    stream = environ["wsgi.input"]
    body: bytes = stream.read(limits.REQUEST_BYTES + 1)
    if len(body) > limits.REQUEST_BYTES:
        for _ in range(_CHUNKS):
            if not stream.read(limits.MESSAGE_BYTES):
                break
        raise errors.InvalidParameterValueException(TOO_LONG)
    announced = environ.get("CONTENT_LENGTH") or "0"
    if announced.isascii() and announced.isdecimal() and len(body) < int(announced):
        raise errors.SerializationException("The request body ends too early.")
    return body


def _request(node: Node, environ: Environ) -> protocol.Request:
    """Return the request but for its body."""
    scheme = environ["wsgi.url_scheme"]
    host = _host(scheme, environ.get("HTTP_HOST")) or f"{node.settings.host}:{node.settings.port}"
    return protocol.Request(
        method=environ["REQUEST_METHOD"],
        path=environ["PATH_INFO"].encode("latin-1").decode(errors="replace"),
        headers=_Headers(environ),
        query=environ.get("QUERY_STRING", ""),
        body=b"",
        base_url=f"{scheme}://{host}",
        request_id=ids.new(),
    )


@lru_cache(maxsize=1024)
def _host(scheme: str, header: str | None) -> str:
    """Return the host that a client named, or nothing where it cannot be one."""
    return get_host(scheme, header)


def _sent(response: protocol.Response) -> flask.Response:
    return flask.Response(response.body, response.status, response.headers)
