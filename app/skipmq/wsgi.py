"""The WSGI application: the SQS view, and health."""

from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from uuid import uuid4

import flask
import structlog
from werkzeug.exceptions import HTTPException

from skipmq import auth, errors, limits, protocol
from skipmq.actions import EVERY
from skipmq.model import Identity
from skipmq.node import Node

log = structlog.get_logger()

_METHODS = ["GET", "POST"]
_CHUNKS = 64
TOO_LONG = (
    "One or more parameters are invalid. Reason: Message must be shorter than"
    f" {limits.MESSAGE_BYTES} bytes."
)


def create_app(node: Node) -> flask.Flask:
    """Return the application of a node."""
    app = flask.Flask("skipmq", static_folder=None)

    app.config["ADDRESS"] = f"{node.settings.host}:{node.settings.port}"
    # No path is answered by sending the client elsewhere; a queue's may end with a slash.
    app.url_map.merge_slashes = app.url_map.strict_slashes = False

    @app.route("/", methods=_METHODS, provide_automatic_options=False)
    @app.route("/<account>/<queue>", methods=_METHODS, provide_automatic_options=False)
    def sqs(account: str = "", queue: str = "") -> flask.Response:
        del account, queue  # The codec reads the path itself.
        if flask.request.method not in _METHODS:
            flask.abort(405)  # HEAD comes along with GET.
        return _sent(_answer(node, _request()))

    @app.get("/health/live")
    def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/health/ready")
    def ready() -> tuple[dict[str, str], int]:
        reason = node.readiness()
        return ({"status": "ready"}, 200) if reason is None else ({"status": reason}, 503)

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> flask.Response:
        with suppress(errors.SqsError):
            _body()
        told = errors.UnknownOperationException(f"{error.code} {error.name}")
        return _sent(protocol.encode_error(_request(), told))

    return app


def _answer(node: Node, request: protocol.Request) -> protocol.Response:
    """Answer one SQS request, whose body is not read yet: decode, identify, act, encode."""
    began, action = perf_counter(), "?"
    try:
        with node.admission.admitted():
            call = protocol.decode(replace(request, body=_body()))
            call = replace(call, identity=_identify(request))
            action = call.action
            response = protocol.encode(call, EVERY[action](node, call))
    except errors.Overloaded as error:
        with suppress(errors.SqsError):
            _body()
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


def _body() -> bytes:
    """Return the body of the request, heard out: before that a client may not listen.

    Raises errors.InvalidParameterValueException when it is longer than any valid one, and
    errors.SerializationException when the client broke off: what it sent may look complete.
    """
    stream = flask.request.environ["wsgi.input"]
    body: bytes = stream.read(limits.REQUEST_BYTES + 1)
    if len(body) > limits.REQUEST_BYTES:
        for _ in range(_CHUNKS):
            if not stream.read(limits.MESSAGE_BYTES):
                break
        raise errors.InvalidParameterValueException(TOO_LONG)
    if len(body) < (flask.request.content_length or 0):
        raise errors.SerializationException("The request body ends too early.")
    return body


def _request() -> protocol.Request:
    """Return the request but for its body."""
    request = flask.request
    return protocol.Request(
        method=request.method,
        path=request.path,
        headers=request.headers,
        query=request.query_string.decode("latin-1"),
        body=b"",
        base_url=f"{request.scheme}://{request.host or flask.current_app.config['ADDRESS']}",
        request_id=str(uuid4()),
    )


def _identify(request: protocol.Request) -> Identity:
    return auth.identify(request.headers.get("Authorization"), request.query)


def _sent(response: protocol.Response) -> flask.Response:
    return flask.Response(response.body, response.status, response.headers)
