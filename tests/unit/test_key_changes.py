"""A task that reads changed keys ends when it is cancelled, also in the middle of a change."""

import asyncio
from collections.abc import Callable

import pytest

from skipmq.broker.key_store import KeyStore
from skipmq.broker.messages.receipts import ReceiptKeys
from skipmq.config.settings import Settings
from skipmq.database.partitions import Database

NOWHERE = "postgresql:///nowhere?host=/nowhere"
STORES: dict[str, Callable[[], ReceiptKeys | KeyStore]] = {
    "receipt keys": lambda: ReceiptKeys(Database(NOWHERE, size=1)),
    "access keys": lambda: KeyStore(Settings(master_key="k" * 43 + "="), Database(NOWHERE, size=1)),
}


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@pytest.mark.parametrize("turns", range(6))
def test_task_that_is_cancelled_as_keys_change_ends(
    make: Callable[[], ReceiptKeys | KeyStore], turns: int
) -> None:
    async def run() -> bool:
        keys = make()
        task = asyncio.create_task(keys.run())
        await asyncio.sleep(0)
        keys.changed()
        # In each of these turns of the loop the change has come one step nearer to the task.
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        ended, _ = await asyncio.wait([task], timeout=20)
        # A task that lost the first cancellation ends by the second.
        task.cancel()
        return bool(ended)

    assert asyncio.run(run())
