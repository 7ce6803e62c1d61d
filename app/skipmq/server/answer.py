"""One SQS request and its answer, whatever server it came through."""

import re
from functools import lru_cache
from time import perf_counter

import structlog

from skipmq import auth, errors, limits, protocol
from skipmq.actions import EVERY
from skipmq.model import Identity
from skipmq.node import Node
from skipmq.protocol import Request, Response
from skipmq.server.admission import Admission

log = structlog.get_logger()

# What both doors take, and say of bodies that they cannot.
METHODS = frozenset({"GET", "POST"})
BODY_TOO_LONG = (
    "One or more parameters are invalid. Reason: Message must be shorter than"
    f" {limits.MESSAGE_BYTES} bytes."
)
BODY_BROKEN_OFF = "The request body ends too early."
NODE_STOPS = "The node is stopping; nothing has been done; try again."
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


def refusal(method: str, version: str, hosts: int) -> errors.SqsError | None:
    """Return what HTTP has against a request, before anybody has read its body."""
    if method not in METHODS:
        return errors.MethodNotAllowed()
    if hosts != 1 and version == "1.1":  # RFC 9112, section 3.2.
        return errors.SerializationException("A request of HTTP/1.1 has one Host.")
    return None


class Broker:
    """A node behind its admission: decodes, identifies, acts and encodes; for one loop."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.admission = Admission(node.settings.max_requests, node.observer)
        self._logs_requests = node.settings.log_level == "debug"

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request; never raises for what a client may send."""
        began = perf_counter() if self._logs_requests else 0.0
        action = "?"
        try:
            self.admission.enter()
            try:
                identity = self._identify(request)
                call = protocol.decode(request)
                action = call.action
                call.identity = identity
                call.deadline = self.node.deadline()
                response = protocol.encode(call, await EVERY[action](self.node, call))
            finally:
                self.admission.leave()
        except errors.SqsError as error:
            if isinstance(error, errors.Overloaded):
                self.admission.note_refusal()
            response = protocol.encode_error(request, error)
        except Exception:
            log.exception("request failed", request_id=request.request_id, action=action)
            response = protocol.encode_error(request, errors.InternalFailure())
        if self._logs_requests:
            log.debug(
                "request",
                request_id=request.request_id,
                action=action,
                status=response.status,
                milliseconds=round((perf_counter() - began) * 1000, 1),
            )
        return response

    def _identify(self, request: Request) -> Identity:
        """Return who a request is from: who has signed it, where signatures are checked.

        Raises an errors.SqsError when it is not signed as it must be.
        """
        if self.node.keys is not None:
            return self.node.keys.identify(request)
        return auth.identify(request.headers.get("authorization"), request.query)

    def base_url(self, scheme: str, host: str | None) -> str:
        """Return the base of the URL that a client used, by its Host where that can be one."""
        settings = self.node.settings
        return _base_url(scheme, host) or f"{scheme}://{settings.host}:{settings.port}"

    async def health(self) -> tuple[int, dict[str, str]]:
        """Return whether the node should get requests, as a status of HTTP, and why."""
        reason = await self.node.readiness()
        if reason is not None:
            return 503, {"status": reason}
        try:
            replication = str(await self.node.replication.level())
        except errors.SqsError as error:  # It was lost just now.
            replication = f"not known: {error.message}"
        return 200, {"status": "ready", "replication": replication}


@lru_cache(maxsize=1024)
def _base_url(scheme: str, host: str | None) -> str | None:
    return f"{scheme}://{host}" if host and _HOST.fullmatch(host) else None
