"""Read the requests of a connection, without I/O: find their routes, and bound their bodies.

Nearly all requests are plain (head.py); others are parsed by llhttp (parser.py).
"""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import structs

from skipmq.protocol import errors, limits
from skipmq.protocol.call import Request, Response
from skipmq.protocol.codec import encode_error
from skipmq.server.answer import BODY_INCOMPLETE, BODY_TOO_LONG
from skipmq.server.http.head import Head, plain
from skipmq.server.http.parser import End, Parser, Refused

# The memory that a piece of a body takes in addition to its bytes.
PIECE_BYTES = 64
# The bytes of an overlong body that are read and discarded, until which its client does not read
# the answer.
DISCARDED_BYTES = 64 * 1_048_576
# Bodies and incomplete heads up to this size are not counted.
SMALL_BYTES = 8_192
# The memory for all others until they are answered, and for bytes that are not parsed yet: of all
# clients, and of one address.
BODIES_BYTES, CLIENT_BYTES = 256 * 1_048_576, 128 * 1_048_576
# The bytes of heads and chunks that are parsed in one turn of the loop, and the requests that may
# wait behind the one that is being answered; the rest of the bytes wait as they are.
TURN_BYTES, AHEAD = 16_384, 16
_HEAD_END = b"\r\n\r\n"


class Route(msgspec.Struct, frozen=True):
    """A request with the function that answers it, or `refused` with the error instead.

    `limit` is the length of its body in bytes.
    """

    request: Request
    answer: Callable[[Request], Awaitable[Response]]
    refused: errors.SqsError | None = None
    limit: int = limits.REQUEST_BYTES

    @property
    def too_long(self) -> errors.SqsError:
        """Return the error of a body beyond the limit."""
        if self.limit < limits.REQUEST_BYTES:
            return errors.FormTooLong()
        return errors.InvalidParameterValueException(BODY_TOO_LONG)


class Received(msgspec.Struct, frozen=True):
    """A complete request, or the response with which the connection ends.

    `counted` is the size of its body among the pending ones, which the connection subtracts.
    """

    route: Route | None
    response: Response | None
    keep_alive: bool = False
    version: str = "1.1"
    counted: int = 0


class PendingBodies:
    """The bytes of requests in a worker's memory that wait, in total and by client address.

    They are bodies until they are answered, incomplete heads, and what is not parsed yet.
    """

    def __init__(self) -> None:
        self.total = 0
        self._by_client: dict[str, int] = {}

    def add(self, client: str, size: int) -> None:
        """Add bytes of a client; raise errors.Overloaded beyond CLIENT_BYTES or BODIES_BYTES."""
        client_total = self._by_client.get(client, 0) + size
        self.total += size
        self._by_client[client] = client_total
        if client_total > CLIENT_BYTES or self.total > BODIES_BYTES:
            raise errors.Overloaded

    def remove(self, client: str, size: int) -> None:
        """Subtract bytes of a client."""
        self.total -= size
        left = self._by_client.pop(client, 0) - size
        if left:
            self._by_client[client] = left


class Reader:
    """The requests of a connection; `state` is the parser's, or `ended` after a refusal."""

    __slots__ = (
        "_bodies", "_counted", "_fed_counted", "_find_route", "_head", "_parser", "_peer",
        "_pieces", "_received", "_route", "state",
    )  # fmt: skip

    def __init__(
        self, find_route: Callable[[Head], Route], bodies: PendingBodies, peer: str = ""
    ) -> None:
        self._find_route, self._bodies = find_route, bodies
        # The client's address until a route is found.
        self._peer = peer
        self._parser = Parser()
        self.state = "idle"
        self._head: Head | None = None
        self._route: Route | None = None
        self._pieces: list[bytes] = []
        self._received = self._counted = self._fed_counted = 0

    def read_plain(self, data: bytes) -> Received | None:
        """Return the request in these bytes if it is a plain one; others are for `feed`."""
        # Bodies of this size are not counted, and all routes take them.
        if self.state != "idle" or (found := plain(data, SMALL_BYTES)) is None:
            return None
        try:
            return Received(self._find_route(found), None, keep_alive=True)
        except Refused as refusal:
            return self._refused(refusal.status)

    def turn(self, data: bytes | bytearray) -> int:
        """Return how many of these bytes to parse in one turn of the loop.

        They complete AHEAD requests and one at most, since a head ends in an empty line. The rest
        of a body of known length is taken as a whole.
        """
        begin = 0
        if self.state == "body" and self._head is not None:
            begin = max(0, self._head.size - self._received)
        end = min(len(data), begin + TURN_BYTES)
        # A head has two lines at least: few lines are no more requests than may wait.
        if begin >= end or data.count(b"\n", begin, end) <= 2 * AHEAD:
            return end
        for _ in range(AHEAD):
            found = data.find(_HEAD_END, begin, end)
            if found < 0:
                return end
            begin = found + len(_HEAD_END)
        return begin

    def feed(self, data: bytes) -> list[Received]:
        """Parse bytes; return the requests that they complete, the last perhaps a refusal."""
        complete: list[Received] = []
        try:
            for event in self._parser.feed(data):
                if isinstance(event, Head):
                    self._begin(event)
                elif isinstance(event, bytes):
                    self._add(event)
                elif isinstance(event, End):
                    complete.append(self._complete(event))
                else:
                    raise event
            self.state = self._parser.state
            self._count_fed()
        except Refused as refusal:
            complete.append(self._refused(refusal.status))
        except errors.SqsError as error:
            complete.append(self.refuse_body(error))
        return complete

    def refuse_body(self, error: errors.SqsError | None = None) -> Received:
        """Return the refusal of a request with an incomplete body, and end."""
        assert self._route is not None
        request, refused = self._route.request, self._route.refused
        reason = refused or error or errors.SerializationException(BODY_INCOMPLETE)
        self.release()
        self.state = "ended"
        return Received(self._route, encode_error(request, reason))

    def close(self) -> None:
        """Discard an incomplete request; the reader must not be used any more."""
        self.release()
        self._parser.close()
        del self._parser, self._find_route

    def release(self) -> None:
        """Subtract the request from the pending ones."""
        if self._counted:
            self._bodies.remove(self._client, self._counted)
            self._counted = 0

    @property
    def body_bytes(self) -> int:
        """Return the length of the body that is being read, or its maximum if chunked."""
        size = 0 if self._head is None else self._head.size
        return size if size >= 0 else limits.REQUEST_BYTES

    @property
    def expects_continue(self) -> bool:
        """Return whether the client waits for 100 Continue before it sends the body."""
        return self._parser.expects_continue

    @property
    def _client(self) -> str:
        return self._peer if self._route is None else self._route.request.client

    def _begin(self, head: Head) -> None:
        """Find the route of a request; what its head counts is its client's from now on."""
        counted = self._counted
        self.release()
        self._head, self._route = head, self._find_route(head)
        if counted:
            self._counted = counted
            self._bodies.add(self._client, counted)

    def _add(self, piece: bytes) -> None:
        """Append a piece of the body; discard those of an overlong one."""
        assert self._route is not None
        assert self._head is not None
        self._received += len(piece)
        is_too_long = max(self._received, self._head.size) > self._route.limit
        if is_too_long or self._route.refused is not None:
            self._pieces.clear()
            self.release()
            if self._received > DISCARDED_BYTES:
                raise self._route.too_long
            return
        if not 0 <= self._head.size <= SMALL_BYTES:
            size = len(piece) + PIECE_BYTES
            self._counted += size
            self._bodies.add(self._client, size)
        self._pieces.append(piece)

    def _complete(self, end: End) -> Received:
        route, head, pieces = self._route, self._head, self._pieces
        assert route is not None
        assert head is not None
        if max(self._received, head.size) > route.limit:
            route = structs.replace(route, refused=route.refused or route.too_long)
        elif pieces:
            route.request.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        received = Received(route, None, end.keep_alive, head.version, self._counted)
        self._head = self._route = None
        self._pieces = []
        self._received = self._counted = 0
        return received

    def _count_fed(self) -> None:
        """Add a head, a trailer or the like of which more is awaited to the pending bytes."""
        fed = self._parser.fed
        if fed < self._fed_counted:  # A piece of a body has come, or another request.
            self._fed_counted = 0
        size = fed - self._fed_counted
        if size <= SMALL_BYTES:
            return
        self._fed_counted = fed
        self._counted += size
        try:
            self._bodies.add(self._client, size)
        except errors.Overloaded:
            raise Refused(503) from None

    def _refused(self, status: int) -> Received:
        """End, and return a refusal."""
        self.release()
        self.state = "ended"
        headers = [("retry-after", "1")] if status == 503 else []  # noqa: PLR2004 - HTTP's.
        return Received(None, Response(status, headers, b""))
