import asyncio
from time import monotonic

import psycopg
import pytest
from structlog.testing import capture_logs

from skipmq.database.availability import Availability
from skipmq.telemetry.metrics import Observer
from support.loop import eventually

LOST = psycopg.OperationalError("lost")


class Server:
    """Something that is available or not, as its probe says."""

    def __init__(self) -> None:
        self.is_there = False
        self.probes = 0
        self.shown: dict[str, float] = {}
        self.counted: list[str] = []
        self.availability = Availability("server", self.probe, self)

    async def probe(self) -> None:
        self.probes += 1
        if not self.is_there:
            raise psycopg.OperationalError("not there")

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        del labels, by
        self.counted.append(event)

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        del labels
        self.shown[state] = value

    async def waiters(self, count: int) -> list[asyncio.Task[bool]]:
        """Have so many wait, and return what tells them whether it is available."""
        tasks = [
            asyncio.create_task(self.availability.wait(monotonic() + 60)) for _ in range(count)
        ]
        await eventually(lambda: self.shown.get("waiting for server") == count)
        return tasks


@pytest.fixture
def server() -> Server:
    return Server()


async def test_nobody_waits_while_it_is_available(server: Server) -> None:
    assert await server.availability.wait(monotonic())
    assert not server.availability.is_unavailable


async def test_all_who_wait_go_on_together(server: Server) -> None:
    server.availability.mark_unavailable(LOST)
    waiting = await server.waiters(8)
    await eventually(lambda: server.probes)
    assert not any(task.done() for task in waiting)

    server.is_there = True

    assert await asyncio.gather(*waiting) == [True] * 8
    assert server.shown == {"server available": 1, "waiting for server": 0}
    assert server.counted.count("parked") == 8
    assert server.counted.count("server outages") == 1


async def test_who_waits_too_long_goes_on_without_it(server: Server) -> None:
    server.availability.mark_unavailable(LOST)

    assert not await server.availability.wait(monotonic() + 0.01)
    assert not await server.availability.wait(monotonic())
    assert server.availability.is_unavailable


async def test_who_is_cancelled_waits_no_longer(server: Server) -> None:
    server.availability.mark_unavailable(LOST)
    first, second = await server.waiters(2)

    first.cancel()

    await eventually(lambda: server.shown["waiting for server"] == 1)
    server.is_there = True
    assert await second


async def test_stop_ends_all_waiting_for_good(server: Server) -> None:
    server.availability.mark_unavailable(LOST)
    waiting = await server.waiters(2)
    outlasting = asyncio.create_task(server.availability.wait_until_available())
    await eventually(lambda: server.shown["waiting for server"] == 3)

    server.availability.stop()

    assert await asyncio.gather(*waiting) == [False] * 2
    await outlasting
    server.availability.mark_unavailable(LOST)
    assert not server.availability.is_unavailable
    assert not await server.availability.wait(monotonic() + 60)


async def test_one_task_probes_however_many_notice(server: Server) -> None:
    tasks = len(asyncio.all_tasks())
    for _ in range(5):
        server.availability.mark_unavailable(LOST)
    assert len(asyncio.all_tasks()) == tasks + 1
    server.is_there = True
    await server.availability.wait_until_available()

    assert server.availability.interruptions == 1
    assert server.probes == 1


async def test_each_loss_counts(server: Server) -> None:
    server.is_there = True
    for _ in range(2):
        server.availability.mark_unavailable(LOST)
        await server.availability.wait_until_available()

    assert server.availability.interruptions == 2


async def test_probe_that_fails_for_another_reason_has_found_nothing() -> None:
    failures = [ZeroDivisionError(), ZeroDivisionError(), LOST, ZeroDivisionError()]

    async def probe() -> None:
        if failures:
            raise failures.pop(0)

    availability = Availability("server", probe, Observer())
    with capture_logs() as lines:
        availability.mark_unavailable(LOST)

        assert await availability.wait(monotonic() + 60)

    assert failures == []
    # With a traceback, once for each time that it begins.
    assert [line["event"] for line in lines].count("cannot probe") == 2
