from hashlib import sha256

import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import number

IDS = "select skipmq.deduplication_ids(%s, array[null, 'mine']::text[], array['body', 'other'])"


@pytest.mark.parametrize(
    ("by_content", "ids"),
    [("true", [sha256(b"body").hexdigest(), "mine"]), ("false", [None, "mine"])],
)
def test_missing_id_is_that_of_the_body_where_the_queue_says_so(
    owner: Connection, by_content: str, ids: list[str | None]
) -> None:
    fifo = FifoQueue(owner, ContentBasedDeduplication=by_content)

    assert number(owner, IDS, fifo.id) == ids
