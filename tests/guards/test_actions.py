"""An action is whole: its request is known, and what it writes is tried where connections end."""

from skipmq.actions.dispatch import EVERY
from skipmq.actions.skipmq.table import EXTENSIONS
from skipmq.protocol.extensions import REQUESTS
from support.writes import WRITES


def test_every_action_of_our_own_has_a_request() -> None:
    assert REQUESTS.keys() == EXTENSIONS.keys(), (
        "a class in app/skipmq/protocol/extensions.py, or a record in EXTENSIONS of"
        " app/skipmq/actions/skipmq/table.py"
    )


def test_every_action_that_writes_is_tried_with_connections_that_end() -> None:
    # EndSession signals a process, and commits nothing.
    writing = {name for name, action in EVERY.items() if not action.is_read} - {"EndSession"}

    missing = writing - {write.action for write in WRITES}
    assert missing == set(), "an entry in tests/support/writes.py, or is_read=True in its record"
