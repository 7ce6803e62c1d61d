from support.postgres import Connection
from support.sql import Queue, advance, number

SINCE = "select skipmq.queue_since('arn:aws:sqs:us-east-1:000000000000:orders')"


def test_queue_is_since_it_was_created_again_not_since_its_purge(owner: Connection) -> None:
    assert number(owner, SINCE) is None
    first = Queue(owner)
    since = number(owner, SINCE)
    advance(owner, "1 hour")
    purged = number(owner, "select queue_id from skipmq.purge_queue(%s)", first.id)
    assert number(owner, SINCE) == since
    owner.execute("select skipmq.delete_queue(%s)", (purged,))
    advance(owner, "2 hours")
    Queue(owner)

    assert number(owner, SINCE) > since
