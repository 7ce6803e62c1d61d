"""What operators look at may have much to read: a slow one says nothing about the database."""

import psycopg
from psycopg.conninfo import make_conninfo

from support.http import NodeProcess, client, eventually
from support.postgres import Databases, as_node
from support.visitor import Visitor

BUSY = "select count(*) from pg_stat_activity where query like '%%time_in_queue%%' and pid <> %s"
# The node waits for as long as it takes: so its read is as slow as that of a slow disk.
PATIENT = "-c lock_timeout=60s"


def test_a_search_that_takes_long_is_given_up_by_itself(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    node_url = make_conninfo(as_node(url), options=PATIENT)
    with (
        NodeProcess(database_url=node_url, workers=1) as node,
        psycopg.connect(url) as owner,
        psycopg.connect(url, autocommit=True) as watcher,
    ):
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        owner.execute("lock table skipmq.history in access exclusive mode")

        page = Visitor(node.url).get("queues/orders/charts")
        sqs.send_message(QueueUrl=queue, MessageBody="tea")

        def is_over() -> bool:
            found = watcher.execute(BUSY, (watcher.info.backend_pid,)).fetchone()
            return found == (0,)

        # Cancelled, and not only left.
        eventually(is_over, 10, "the server still reads")
        owner.rollback()
        assert page.status == 200
        assert "The database did not answer in time" in page.body
        assert node.metric("skipmq_search_deadlines_total") >= 1
        assert node.metric("skipmq_database_deadlines_total") == 0
        assert "database unavailable" not in node.log, node.log
