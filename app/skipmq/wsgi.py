"""The WSGI application: the SQS view, and health."""

from dataclasses import replace
from time import perf_counter
from uuid import uuid4

import flask
import structlog
from werkzeug.exceptions import HTTPException

from skipmq import auth, errors, limits, protocol
from skipmq.actions import ACTIONS
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

    @app.route("/", methods=_METHODS)
    @app.route("/<account>/<queue>", methods=_METHODS)
    def sqs(account: str = "", queue: str = "") -> flask.Response:
        del account, queue  # The codec reads the path itself.
        body = _body()
        if body is None:
            return _sent(
                protocol.encode_error(
                    _request(b""), errors.InvalidParameterValueException(TOO_LONG)
                )
            )
        return _sent(_answer(node, _request(body)))

    @app.get("/health/live")
    def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/health/ready")
    def ready() -> tuple[dict[str, str], int]:
        reason = node.readiness()
        return ({"status": "ready"}, 200) if reason is None else ({"status": reason}, 503)

    @app.errorhandler(HTTPException)
    def unknown(error: HTTPException) -> flask.Response:
        told = errors.UnknownOperationException(f"{error.code} {error.name}")
        return _sent(protocol.encode_error(_request(b""), told))

    return app


def _answer(node: Node, request: protocol.Request) -> protocol.Response:
    """Answer one SQS request: decode, identify, act, encode."""
    began, action = perf_counter(), "?"
    try:
        call = replace(protocol.decode(request), identity=_identify(request))
        action = call.action
        response = protocol.encode(call, ACTIONS[action](node, call))
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


def _body() -> bytes | None:
    """Return the body of the request, or None when it is longer than any valid one."""
    stream = flask.request.environ["wsgi.input"]
    body: bytes = stream.read(limits.REQUEST_BYTES + 1)
    if len(body) <= limits.REQUEST_BYTES:
        return body
    # The client listens only when it has been heard out, within reason.
    for _ in range(_CHUNKS):
        if not stream.read(limits.MESSAGE_BYTES):
            break
    return None


def _request(body: bytes) -> protocol.Request:
    request = flask.request
    return protocol.Request(
        method=request.method,
        path=request.path,
        headers=request.headers,
        query=request.query_string.decode("latin-1"),
        body=body,
        base_url=f"{request.scheme}://{request.host or flask.current_app.config['ADDRESS']}",
        request_id=str(uuid4()),
    )


def _identify(request: protocol.Request) -> Identity:
    return auth.identify(request.headers.get("Authorization"), request.query)


def _sent(response: protocol.Response) -> flask.Response:
    return flask.Response(response.body, response.status, response.headers)
