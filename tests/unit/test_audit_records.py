"""What the audit log has of calls that are refused before they run, or cancelled."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any
from urllib.parse import urlencode

from structlog.testing import capture_logs

from skipmq.broker.node import Node
from skipmq.config.settings import Settings
from skipmq.protocol import requests
from skipmq.protocol.call import Call, Request
from skipmq.protocol.identity import Identity
from skipmq.server.answer import Broker
from support.loop import eventually
from support.wire import target

Ask = Callable[..., Request]
PURGE = {"QueueUrl": "http://localhost:9324/000000000000/orders"}


async def cancelled(ask: Callable[[Broker], Coroutine[Any, Any, Any]]) -> dict[str, Any]:
    """Cancel a request to a node whose database is unavailable; return its audit record."""
    node = Node(Settings(failover_wait=60), "postgresql://127.0.0.1:1/nowhere")
    node.is_open = True
    with capture_logs() as lines:
        task = asyncio.create_task(ask(Broker(node)))
        await eventually(lambda: node.database.pool.availability.failure)
        assert not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await node.close()
    (record,) = [line for line in lines if line["event"] == "audit"]
    return dict(record)


async def test_cancelled_request_may_have_been_done(ask: Ask) -> None:
    request = ask(json.dumps(PURGE).encode(), headers=target("PurgeQueue"))

    record = await cancelled(lambda broker: broker.answer(request))

    assert (record["action"], record["door"]) == ("PurgeQueue", "api")
    assert record["outcome"] == "ServiceUnavailable"
    assert "whether it has been done is not known" in record["reason"]


async def test_cancelled_call_of_the_console_may_have_been_done(ask: Ask) -> None:
    parameters = requests.PurgeQueue(**PURGE)
    call = Call("PurgeQueue", parameters, ask(), Identity(), monotonic() + 60)

    record = await cancelled(lambda broker: broker.act(call))

    assert (record["action"], record["door"]) == ("PurgeQueue", "console")
    assert record["outcome"] == "ServiceUnavailable"


async def test_request_that_is_refused_before_it_runs_names_its_queue(ask: Ask) -> None:
    node = Node(Settings(), "postgresql://127.0.0.1:1/nowhere")
    node.is_open = True
    query = urlencode({"Action": "DeleteQueue", **PURGE})
    with capture_logs() as lines:
        response = await Broker(node).answer(ask(method="GET", query=query))
    await node.close()

    (record,) = [line for line in lines if line["event"] == "audit"]
    assert (response.status, record["outcome"]) == (403, "AccessDenied")
    assert record["queue"] == "arn:aws:sqs:us-east-1:000000000000:orders"
