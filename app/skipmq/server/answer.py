"""The answer to an SQS request, for both doors."""

import asyncio
import re
from collections.abc import Sequence
from functools import lru_cache, partial
from time import monotonic

import msgspec

from skipmq.actions.dispatch import EVERY, Authorised, Outcome, authorise, run
from skipmq.auth.credentials import identify
from skipmq.broker import statistics
from skipmq.broker.node import Node
from skipmq.broker.statistics import QueueStatistics
from skipmq.database import monitor
from skipmq.database.retry import DatabaseError
from skipmq.protocol import codec, errors, limits
from skipmq.protocol.call import Call, Request, Response, Result, has_signature
from skipmq.protocol.identity import Identity, Need
from skipmq.server import request_trace
from skipmq.server.admission import Admission, Rate
from skipmq.server.browsers import Browsers
from skipmq.server.proxies import ForwardingHeaders, Proxies, address
from skipmq.server.request_log import RequestLog
from skipmq.telemetry.logs import log

# Methods and error texts of both doors.
METHODS = frozenset({"GET", "POST"})
BODY_TOO_LONG = (
    "One or more parameters are invalid. Reason: Message must be shorter than"
    f" {limits.MESSAGE_BYTES} bytes."
)
BODY_INCOMPLETE = "The request body ends too early."
NODE_STOPS = "The node is stopping; nothing has been done; try again."
# The labels of each action in metrics, and of requests without one.
_LABELS = {action: (action,) for action in EVERY}
_NO_ACTION = ("",)
# Of a client's address, in each worker: a person who mistypes may try again immediately.
SIGN_INS_PER_SECOND, SIGN_INS_AT_ONCE = 0.5, 5
# Paths of pages, health and metrics; requests on all other paths are SQS's.
_PAGE = re.compile("/(?:console|health|metrics)(?:/.*)?", re.DOTALL)
_LINKS = tuple(f"Action={name}&" for name, action in EVERY.items() if action.is_link)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


def is_page(path: str) -> bool:
    """Return whether a path is that of a page, health or metrics, and not of SQS."""
    return _PAGE.fullmatch(path) is not None


def redirect(method: str, path: str, query: str, accept: str | None) -> Response | None:
    """Return a redirect to the console for a browser that opens the node's address, or None."""
    wants_page = accept is not None and "text/html" in accept.lower()
    if method != "GET" or path != "/" or "Action" in query or not wants_page:
        return None
    headers = [("location", "/console/"), ("vary", "Accept"), ("cache-control", "no-store")]
    return Response(302, headers, b"")


def refusal(method: str, version: str, hosts: int) -> errors.SqsError | None:
    """Return the error of a request by its method and number of Host headers, or None."""
    if method not in METHODS:
        return errors.MethodNotAllowed()
    if hosts != 1 and version == "1.1":  # RFC 9112, section 3.2.
        return errors.SerializationException("An HTTP/1.1 request must have one Host header.")
    return None


class ConnectionDropped(Exception):  # noqa: N818 - nothing is wrong.
    """A request is not answered, and its connection ends at once: a fault that a test injects."""


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Where a request is from: the client's address, and the scheme and host that it used.

    `refusal` is the reason why it may be from a page of another site, or is empty.
    """

    client: str
    base_url: str
    refusal: str


class Broker:
    """A node behind its limits: admits, identifies, decodes, runs and encodes; for one loop."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.admission = Admission(node.settings.max_requests, node.observer)
        settings = node.settings
        self._log = RequestLog(settings, node.audit, node.refusals, node.keys)
        self._browsers = None if settings.checks_signatures else Browsers(settings)
        self._proxies = Proxies(settings.proxies)
        self._cached_origin = lru_cache(maxsize=1024)(self._find_origin)
        workers = settings.worker_count
        self._key_rate = _rate(settings.rate_limit_key, workers)
        queue_rate = _rate(settings.rate_limit_queue, workers)
        # Called before an authorised call runs.
        self._admit = None if queue_rate is None else partial(self._take_queues, queue_rate)
        self._sign_ins = Rate(SIGN_INS_PER_SECOND, SIGN_INS_AT_ONCE)
        self._own = settings.region, settings.account

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request; errors are answers too."""
        tracing = self.node.tracing
        span = None if tracing is None else tracing.request(request.method, request.headers)
        outcome = await self._answer(request, None)
        call, failure, response = outcome.call, outcome.failure, outcome.response
        assert response is not None
        labels, seconds = _NO_ACTION, outcome.seconds
        if call is not None:
            labels = _LABELS[call.action]
            seconds -= call.recipient.waited
        received, sent = len(request.body), len(response.body)
        observer = self.node.observer
        observer.answered(labels, seconds, request.request_id, received, sent)
        if failure is not None:
            observer.count("request errors", (*labels, failure.code))
        if span is not None:
            request_trace.end(span, request, outcome)
        return response

    async def act(self, call: Call) -> Result:
        """Run a call of the console with authorisation, limits and logging; return its result.

        Raises an errors.SqsError.
        """
        outcome = await self._answer(call.request, call)
        if outcome.failure is not None:
            raise outcome.failure
        return outcome.result

    async def _answer(self, request: Request, call: Call | None) -> Outcome:
        """Run and record a call, or that of a request, whose result it encodes."""
        began, node, is_encoded = monotonic(), self.node, call is None
        authorised: Authorised | None = None
        result: Result = None
        failure: errors.SqsError | None = None
        response: Response | None = None
        try:
            with self.admission:
                node.check_open()
                if call is None:
                    if request.refusal:
                        self.check_browser(request)
                    if node.keys is not None and not (
                        request.method == "GET" and _is_link(request)
                    ):
                        identity = node.keys.identify(request)
                    else:
                        authorization = request.headers.get("authorization")
                        identity = identify(authorization, request.query, *self._own)
                    call = codec.decode(request, identity, began + node.settings.failover_wait)
                if request.method == "GET" or self._key_rate is not None:
                    self._check_caller(call)
                authorised = await authorise(node, call, self._admit)
                result = await run(node, authorised)
                if is_encoded:
                    response = codec.encode(call, result)
        except errors.SqsError as error:
            failure = error
        except asyncio.CancelledError:
            # The action may have run: record it in the audit log.
            failure = errors.RequestCancelled()
            raise
        except Exception:
            what = "request failed" if is_encoded else "call failed"
            log.exception(what, request_id=request.request_id, action=call and call.action)
            failure = errors.InternalFailure()
        finally:
            if failure is not None and is_encoded:
                response = codec.encode_error(request, failure)
            seconds = monotonic() - began
            outcome = Outcome(call, authorised, result, failure, response, seconds)
            self._log.note(request, outcome)
        return outcome

    def show(self) -> None:
        """Pass the node's gauges to the observer."""
        node = self.node
        node.database.pool.show()
        node.observer.show("requests", self.admission.active)
        node.observer.show("waiting receivers", node.waiters.count())
        node.observer.show("cached queues", node.queues.cached)

    async def statistics(self) -> tuple[list[QueueStatistics], QueueStatistics | None]:
        """Return the statistics of the busiest queues and the sum of all others, if available."""
        try:
            return await statistics.queues(
                self.node.database, self.node.settings.metrics_queues, order="rate"
            )
        except (errors.SqsError, DatabaseError) as error:
            # The other metrics are shown, whatever keeps these from being read.
            if not isinstance(error, errors.SqsError):
                log.exception("cannot read the statistics of queues")
            return [], None

    async def sign_in(self, request: Request, key_id: str, secret: str, region: str) -> Identity:
        """Return the identity of a key's id and secret; record the sign-in.

        Raises errors.InvalidClientTokenId, and errors.ThrottlingException beyond
        SIGN_INS_PER_SECOND.
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
        """Check that a request is not from a page of another site, if no signatures are checked.

        Raises errors.AccessDenied.
        """
        if request.refusal:
            raise errors.AccessDenied(request.refusal)

    async def note_refusal(self, request: Request, error: errors.SqsError) -> None:
        """Record the refusal of a request that has no action."""
        self._log.note(request, Outcome(failure=error))

    def _check_caller(self, call: Call) -> None:
        """Check the method of a call, that it is a link if unsigned, and the rate of its key.

        Raises errors.AccessDenied, errors.MissingAuthenticationToken, errors.ThrottlingException.
        """
        if self.node.keys is not None and call.identity.key_id is None:
            if not EVERY[call.action].is_link:
                raise errors.MissingAuthenticationToken
            return
        if self._browsers is not None:
            self._browsers.check_method(call)
        if self._key_rate is not None and call.identity.key_id is not None:
            self._key_rate.take(call.identity.key_id)

    def _take_queues(self, queue_rate: Rate, needs: Sequence[Need]) -> None:
        """Check the rate limits of a call's queues; raise errors.ThrottlingException.

        Called for authorised calls only, so that refused ones do not use up the limit.
        """
        for name in {need.queue.arn for need in needs}:
            queue_rate.take(name)

    def origin(self, peer: str, scheme: str, headers: ForwardingHeaders) -> Origin:
        """Return where a request is from; headers of forwarding count if `peer` is trusted."""
        get, proxies = headers.get, self._proxies
        host, site, page = get("host"), get("sec-fetch-site"), get("origin")
        if site is not None or page is not None or host is None or proxies.are_any:
            found = proxies.forwarded(peer, scheme, host, headers.joined)
            given = found.client, found.scheme, found.host, host, site, page
            is_short = sum(len(each or "") for each in given) <= 2 * limits.HOST
            return (self._cached_origin if is_short else self._find_origin)(*given)
        if len(host) > limits.HOST:
            return self._find_origin(peer, scheme, host, host)
        return self._cached_origin(peer, scheme, host, host)

    def _find_origin(  # noqa: PLR0913, PLR0917 - all that it depends on.
        self,
        peer: str,
        scheme: str,
        host: str | None,
        sent: str | None,
        site: str | None = None,
        page: str | None = None,
    ) -> Origin:
        """Return the origin of a request; the last three are headers as they were sent."""
        base_url = f"{scheme}://{self.node.settings.host}:{self.node.settings.port}"
        if host is not None and len(host) <= limits.HOST and _HOST.fullmatch(host):
            base_url = f"{scheme}://{host}"
        refusal = ""
        if self._browsers is not None:
            refusal = self._browsers.refusal(sent, site, page, base_url)
        return Origin(address(peer), base_url, refusal)

    async def health(self) -> tuple[int, dict[str, str]]:
        """Return the node's readiness as an HTTP status, with details."""
        node = self.node
        is_ready, state = await node.readiness()
        found = {"status": "ready", "database": state}
        if not is_ready:
            found["status"] = "stopping" if node.is_stopping else "not ready"
            return 503, found
        try:
            level = await node.replication.glance()
            found["replication"] = str(level or "unknown: the database does not answer")
        except errors.SqsError as error:  # The database has just become unavailable.
            found["replication"] = f"unknown: {error.message}"
        if state == monitor.DAMAGED:
            found["damage"] = node.monitor.reason
        if (lock := await node.table_locks.oldest()) is not None:
            found["lock"] = lock.session
        skew = self.node.keys.skew() if self.node.keys is not None else None
        if skew is not None:
            found["clock_skew_seconds"] = f"{skew:.1f}"
        return 200, found


def _is_link(request: Request) -> bool:
    """Return whether a request may be a link of a message, which needs no signature."""
    return request.query.startswith(_LINKS) and not has_signature(request)


def _rate(per_second: float, workers: int) -> Rate | None:
    """Return a worker's share of a node's rate limit, or None without a limit."""
    return Rate(per_second / workers) if per_second else None
