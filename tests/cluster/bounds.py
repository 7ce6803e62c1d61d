"""What each fault may do to those who send and receive."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Bound:
    """What is allowed around a fault.

    Most: seconds without an acknowledged send, counted from the heal where nothing may be
    acknowledged before it: what was measured (README.md), rounded up.

    Loose: receives, changes of visibility and deletes from standard queues do not wait for other
    servers, so that a failover may undo those of its last moment. They are not held against the
    broker until the struck server is dead for certain (at the strike), or the cluster is healthy
    again, or at all times (never).

    At once: the database stays available, so that a node tries again without a pause.
    """

    most: float
    loose: Literal["never", "strike", "healthy"]
    stops: bool = False
    at_once: bool = False


BOUNDS = {
    "switchover": Bound(5, "strike"),
    "postgres-crash": Bound(6, "strike"),
    "terminations": Bound(3, "never", at_once=True),
    "patroni-crash": Bound(8, "healthy"),
    "server-crash": Bound(8, "strike"),
    "server-death": Bound(22, "strike"),
    "server-freeze": Bound(27, "healthy"),
    # If etcd's leader is cut off too, the next one gives every lease its whole time again.
    "isolation": Bound(32, "healthy"),
    "etcd-majority": Bound(4, "healthy"),
    "standbys-down": Bound(15, "never", stops=True),
    "node-crash": Bound(3, "never"),
    "node-freeze": Bound(6, "never"),
    "node-clock": Bound(3, "never"),
}
# So long before its death a server may have answered what no other has yet, in seconds: it writes
# its log at least every 0.2 s, and any send of anybody makes it wait for a standby.
UNDONE = 2.0
