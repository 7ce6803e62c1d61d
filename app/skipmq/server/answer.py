"""One SQS request and its answer, whatever server it came through."""

import asyncio
import re
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

import structlog

from skipmq import auth, errors, limits, protocol
from skipmq.actions import EVERY, perform
from skipmq.model import Identity, QueueStatistics
from skipmq.node import Node
from skipmq.protocol import Call, Request, Response
from skipmq.server import request_trace
from skipmq.server.admission import Admission
from skipmq.server.browsers import Browsers
from skipmq.server.proxies import Origin, Proxies, Sent
from skipmq.server.rates import Rate
from skipmq.server.request_log import RequestLog

log = structlog.get_logger()

# What both doors take, and say of bodies that they cannot.
METHODS = frozenset({"GET", "POST"})
BODY_TOO_LONG = (
    "One or more parameters are invalid. Reason: Message must be shorter than"
    f" {limits.MESSAGE_BYTES} bytes."
)
BODY_BROKEN_OFF = "The request body ends too early."
NODE_STOPS = "The node is stopping; nothing has been done; try again."
# The label of each action in metrics, and of what is none.
_LABELS = {action: (action,) for action in EVERY}
_NO_ACTION = ("",)
# Of a client's address, at a worker.
SIGN_INS_PER_SECOND = 1.0
# What the page door serves under such a path; any other is SQS's, whose action alone decides.
_PAGE = re.compile("/(?:console|health|metrics)(?:/.*)?", re.DOTALL)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


def is_page(path: str) -> bool:
    """Report whether a path is one of pages, health or metrics, and not of SQS."""
    return _PAGE.fullmatch(path) is not None


def redirect(method: str, path: str, query: str, accept: str | None) -> Response | None:
    """Return the way to the console for a browser that opens the node's own address."""
    wants_page = accept is not None and "text/html" in accept.lower()
    if method != "GET" or path != "/" or "Action" in query or not wants_page:
        return None
    headers = [("location", "/console/"), ("vary", "Accept"), ("cache-control", "no-store")]
    return Response(302, headers, b"")


def refusal(method: str, version: str, hosts: int) -> errors.SqsError | None:
    """Return what HTTP has against a request, before anybody has read its body."""
    if method not in METHODS:
        return errors.MethodNotAllowed()
    if hosts != 1 and version == "1.1":  # RFC 9112, section 3.2.
        return errors.SerializationException("A request of HTTP/1.1 has one Host.")
    return None


class Broker:
    """A node behind its admission: decodes, identifies, acts and encodes; for one loop."""

    def __init__(self, node: Node, *, checks_pages: bool | None = None) -> None:
        """Make the broker of a node; `checks_pages` says whether pages of others are refused.

        Unless it is given they are where no signatures are checked.
        """
        self.node = node
        self.admission = Admission(node.settings.max_requests, node.observer)
        settings = node.settings
        self._log = RequestLog(settings, node.audit, node.keys)
        self._browsers = None if settings.checks_signatures else Browsers(settings)
        self._checks_pages = self._browsers is not None if checks_pages is None else checks_pages
        self._proxies = Proxies(settings.proxies)
        workers = settings.worker_count
        self._key_rate = _rate(settings.rate_limit_key, workers)
        queue_rate = _rate(settings.rate_limit_queue, workers)
        # Called before an allowed call is run.
        self._admit = None if queue_rate is None else partial(self._take_queues, queue_rate)
        self._sign_ins = Rate(SIGN_INS_PER_SECOND)

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request; never raises for what a client may send."""
        began = perf_counter()
        tracing = self.node.tracing
        span = None if tracing is None else request_trace.begin(tracing, request)
        call: Call | None = None
        result: dict[str, Any] | None = None
        failure: errors.SqsError | None = None
        try:
            with self.admission:
                self.node.check_open()
                self.check_browser(request)
                if self.node.keys is not None:
                    identity = self.node.keys.identify(request)
                else:
                    region = self.node.settings.region
                    authorization = request.headers.get("authorization")
                    identity = auth.identify(authorization, request.query, region)
                call = protocol.decode(request)
                call.identity = identity
                call.deadline = self.node.deadline()
                self._check_caller(call)
                result = await perform(self.node, call, self._admit)
                response = protocol.encode(call, result)
        except errors.SqsError as error:
            failure = error
            response = protocol.encode_error(request, error)
        except asyncio.CancelledError:
            # It may have been done, and has to be in the audit log.
            failure = errors.RequestCancelled()
            self._log.note(
                request,
                call,
                failure,
                protocol.encode_error(request, failure),
                perf_counter() - began,
            )
            raise
        except Exception:
            log.exception(
                "request failed", request_id=request.request_id, action=call and call.action
            )
            failure = errors.InternalFailure()
            response = protocol.encode_error(request, failure)
        seconds = perf_counter() - began
        self._count(request, call, response, failure, seconds)
        self._log.note(request, call, failure, response, seconds)
        if span is not None:
            request_trace.end(span, request, call, result, failure, response)
        return response

    def _count(
        self,
        request: Request,
        call: Call | None,
        response: Response,
        failure: errors.SqsError | None,
        seconds: float,
    ) -> None:
        observer = self.node.observer
        action = _LABELS[call.action] if call is not None else _NO_ACTION
        waited = call.waited if call is not None else 0.0
        observer.observe("request", seconds - waited, action, request.request_id)
        observer.count("request bytes", action, len(request.body))
        observer.count("response bytes", action, len(response.body))
        if failure is not None:
            observer.count("request errors", (*action, failure.code))

    def show(self) -> None:
        """Show the observer what the node does now."""
        node = self.node
        node.database.show()
        node.observer.show("requests", self.admission.active)
        node.observer.show("waiting receivers", node.waiters.count())
        node.observer.show("cached queues", node.queues.cached)

    async def statistics(self) -> tuple[list[QueueStatistics], QueueStatistics | None]:
        """Return the statistics of the busiest queues and of all others, where they are known."""
        try:
            return await self.node.statistics.queues(
                self.node.settings.metrics_queues, order="rate"
            )
        except errors.SqsError:
            return [], None

    async def act(self, call: Call) -> dict[str, Any] | None:
        """Run a call that came over no wire of SQS, within its rights and limits, on the record.

        Raises an errors.SqsError.
        """
        began = perf_counter()
        failure: errors.SqsError | None = None
        try:
            with self.admission:
                self.node.check_open()
                self._check_caller(call)
                return await perform(self.node, call, self._admit)
        except errors.SqsError as error:
            failure = error
            raise
        except asyncio.CancelledError:
            failure = errors.RequestCancelled()
            raise
        except Exception:
            log.exception("call failed", request_id=call.request.request_id, action=call.action)
            failure = errors.InternalFailure()
            raise failure from None
        finally:
            self._log.note(call.request, call, failure, None, perf_counter() - began)

    async def sign_in(self, request: Request, key_id: str, secret: str, region: str) -> Identity:
        """Return who shows the secret of a key; put it on the record.

        Raises errors.InvalidClientTokenId, and errors.ThrottlingException when the client has
        tried a moment ago.
        """
        assert self.node.keys is not None
        try:
            self._sign_ins.take(request.client)
            identity = self.node.keys.sign_in(key_id, secret, region)
        except errors.SqsError as error:
            self._log.note_sign_in(request, key_id, error)
            raise
        self._log.note_sign_in(request, key_id, identity)
        return identity

    def check_browser(self, request: Request) -> None:
        """Check that no page of another site has made a request, where nobody signs.

        Raises errors.AccessDenied.
        """
        if self._browsers is not None and self._checks_pages:
            self._browsers.check(request)

    async def note_refusal(self, request: Request, error: errors.SqsError) -> None:
        """Put on the record that a request was refused before it was any action."""
        self._log.note(request, None, error, None, 0.0)

    def _check_caller(self, call: Call) -> None:
        """Check the method of a call, and count it for its key.

        Raises errors.AccessDenied, errors.ThrottlingException.
        """
        if self._browsers is not None:
            self._browsers.check_method(call)
        if self._key_rate is not None and call.identity.key_id is not None:
            self._key_rate.take(call.identity.key_id)

    def _take_queues(self, queue_rate: Rate, call: Call) -> None:
        """Count a call for its queues; raise errors.ThrottlingException.

        Only one that is allowed: a refused caller must not use up the rate of the owner's.
        """
        for name in {need.queue.arn for need in call.needs or ()}:
            queue_rate.take(name)

    def origin(self, peer: str, scheme: str, host: str | None, sent: Sent) -> Origin:
        """Return whence a request came, by what proxies say that the node believes."""
        return self._proxies.origin(peer, scheme, host, sent)

    def base_url(self, scheme: str, host: str | None) -> str:
        """Return the base of the URL that a client used, by its Host where that can be one."""
        settings = self.node.settings
        found = _base_url(scheme, host) if host and len(host) <= limits.HOST else None
        return found or f"{scheme}://{settings.host}:{settings.port}"

    async def health(self) -> tuple[int, dict[str, str]]:
        """Return whether the node should get requests, as a status of HTTP, and why."""
        node = self.node
        is_ready, state = await node.readiness()
        found = {"status": "ready", "database": state}
        if not is_ready:
            found["status"] = "stopping" if node.is_stopping else "not ready"
            return 503, found
        try:
            found["replication"] = str(await node.replication.level())
        except errors.SqsError as error:  # It was lost just now.
            found["replication"] = f"not known: {error.message}"
        skew = self.node.keys.skew() if self.node.keys is not None else None
        if skew is not None:
            found["clock_skew_seconds"] = f"{skew:.1f}"
        return 200, found


def _rate(per_second: float, workers: int) -> Rate | None:
    """Return a worker's share of a node's limit; None where there is none."""
    return Rate(per_second / workers) if per_second else None


@lru_cache(maxsize=1024)
def _base_url(scheme: str, host: str) -> str | None:
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else None
