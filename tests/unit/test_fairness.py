import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skipmq.database.fairness import FairSemaphore
from skipmq.protocol import errors
from support.loop import eventually

SOON = 60.0


@asynccontextmanager
async def held(semaphore: FairSemaphore, *tenants: str) -> AsyncIterator[None]:
    for tenant in tenants:
        await semaphore.acquire(tenant)
    yield
    for tenant in tenants:
        semaphore.release(tenant)


class Line:
    """Coroutines that wait for a permit, each known to stand behind the one before."""

    def __init__(self, semaphore: FairSemaphore) -> None:
        self.semaphore = semaphore
        self.order: list[str] = []

    async def join(self, who: str) -> asyncio.Task[None]:
        """Wait for a permit; the tenant is the letter that a name begins with."""
        before = self.semaphore.waiting()
        task = asyncio.create_task(self.turn(who))
        await eventually(lambda: self.semaphore.waiting() == before + 1)
        return task

    async def turn(self, who: str) -> None:
        await self.semaphore.acquire(who[0])
        self.order.append(who)
        self.semaphore.release(who[0])


async def test_permit_goes_to_who_has_waited_longest() -> None:
    semaphore = FairSemaphore(1, SOON)
    line = Line(semaphore)
    async with held(semaphore, "x"):
        tasks = [await line.join(who) for who in ("a1", "a2", "a3", "a4")]

    await asyncio.gather(*tasks)

    assert line.order == ["a1", "a2", "a3", "a4"]


async def test_tenants_take_turns_however_many_one_of_them_sends() -> None:
    semaphore = FairSemaphore(1, SOON)
    line = Line(semaphore)
    async with held(semaphore, "a"):
        tasks = [await line.join(who) for who in ("a1", "a2", "a3", "a4", "b1", "c1", "b2")]

    await asyncio.gather(*tasks)

    assert line.order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_one_tenant_leaves_the_last_permit_to_others() -> None:
    semaphore = FairSemaphore(3, SOON)
    line = Line(semaphore)
    async with held(semaphore, "a", "a"):
        waiting = await line.join("a1")

        async with held(semaphore, "b"):
            assert not waiting.done()
        assert semaphore.waiting() == 1

    await waiting


async def test_only_permit_may_go_to_any_tenant() -> None:
    semaphore = FairSemaphore(1, SOON)

    async with held(semaphore, "a"):
        pass
    async with held(semaphore, "b"):
        pass


async def test_who_waits_too_long_gets_an_error_and_leaves_the_line() -> None:
    semaphore = FairSemaphore(1, seconds=0.01)
    line = Line(semaphore)
    async with held(semaphore, "a"):
        for tenant in ("a", "b"):
            with pytest.raises(errors.ServiceUnavailable, match="busy"):
                await semaphore.acquire(tenant)
        assert semaphore.waiting() == 0

    await line.turn("c1")
    assert line.order == ["c1"]


async def test_who_is_cancelled_leaves_the_line() -> None:
    semaphore = FairSemaphore(1, SOON)
    line = Line(semaphore)
    async with held(semaphore, "a"):
        tasks = [await line.join(who) for who in ("b1", "b2", "c1")]
        tasks[0].cancel()
        await eventually(lambda: semaphore.waiting() == 2)

    await asyncio.gather(*tasks[1:])

    assert line.order == ["b2", "c1"]


async def test_who_is_cancelled_just_as_a_permit_is_granted_gives_it_back() -> None:
    semaphore = FairSemaphore(1, SOON)
    line = Line(semaphore)
    async with held(semaphore, "a"):
        first, second = [await line.join(who) for who in ("b1", "c1")]
    first.cancel()

    await second

    assert first.cancelled()
    assert line.order == ["c1"]
    async with held(semaphore, "a"):
        pass


async def test_permit_that_comes_back_just_as_who_waits_is_cancelled_goes_to_the_next() -> None:
    semaphore = FairSemaphore(1, SOON)
    line = Line(semaphore)
    async with held(semaphore, "a"):
        first, second = [await line.join(who) for who in ("b1", "c1")]
        first.cancel()

    await second

    assert line.order == ["c1"]


async def test_no_permit_is_lost_or_invented_when_many_time_out() -> None:
    permits = 3
    semaphore = FairSemaphore(permits, seconds=0.0002)
    inside, most, timed_out = 0, 0, 0

    async def come_and_go(tenant: str) -> None:
        nonlocal inside, most, timed_out
        for _ in range(200):
            try:
                await semaphore.acquire(tenant)
            except errors.ServiceUnavailable:
                timed_out += 1
                continue
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.0002)
            inside -= 1
            semaphore.release(tenant)

    await asyncio.gather(*(come_and_go("abc"[n % 3]) for n in range(12)))

    assert timed_out > 0
    assert 1 < most <= permits
    assert semaphore.waiting() == 0
    async with held(semaphore, "a", "a", "b"):
        pass
