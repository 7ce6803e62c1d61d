"""What runs at intervals goes on after errors, and names those that are no outage."""

import asyncio

import pytest
from structlog.testing import capture_logs

from skipmq.database.wakeup import Wakeup, every
from skipmq.protocol import errors


async def test_run_is_repeated_when_woken_and_after_errors() -> None:
    outcomes = [errors.ServiceUnavailable(), RuntimeError("broken"), None]
    wakeup, ended = Wakeup(), asyncio.Event()

    async def run() -> None:
        outcome = outcomes.pop(0)
        if outcomes:
            wakeup.wake()
        else:
            ended.set()
        if outcome is not None:
            raise outcome

    wakeup.wake()
    with capture_logs() as lines:
        running = asyncio.create_task(every(3_600, run, "not read", wakeup, what="keys"))
        await ended.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert [(each["event"], each["what"]) for each in lines] == [("not read", "keys")]
