"""What is flushed at intervals is written in order, and a flush under way is not cut off."""

import asyncio

from skipmq.database.wakeup import Flushed


class Gated(Flushed):
    """Writes wait until they may."""

    def __init__(self) -> None:
        super().__init__(0)
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.steps: list[str] = []

    async def _write(self) -> None:
        self.steps.append("begins")
        self.begun.set()
        await self.may_end.wait()
        self.steps.append("ends")


async def test_flush_waits_for_the_one_under_way_whose_task_is_cancelled() -> None:
    gated = Gated()
    running = asyncio.create_task(gated.run())
    await gated.begun.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    last = asyncio.create_task(gated.close())
    await asyncio.sleep(0)
    assert gated.steps == ["begins"]
    gated.may_end.set()
    await last

    assert gated.steps == ["begins", "ends"] * 2
