"""Long polls that wait on an empty queue until this process ends: `python -m bench.parked`."""

import asyncio
import sys

from bench.latency import LONGEST_POLL, answered
from bench.load import Failed
from bench.wire import request

# Whatever is refused is refused by then, and no poll has come to its end.
_SETTLED = 2
# Fewer than the backlog of any listener here: a connection that finds it full comes a second later.
_AT_ONCE = 50


async def _park(url: str, queue: str, polls: int) -> None:
    host, _, port = url.removeprefix("http://").rpartition(":")
    question = request(url, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=LONGEST_POLL)
    loop = asyncio.get_running_loop()

    async def poll(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        while True:
            asked = loop.time()
            await answered(streams, question)
            if loop.time() - asked < LONGEST_POLL - 1:
                raise Failed("a long poll did not wait")

    async with asyncio.TaskGroup() as group:
        for first in range(0, polls, _AT_ONCE):
            opened = await asyncio.gather(
                *(
                    asyncio.open_connection(host, int(port))
                    for _ in range(min(_AT_ONCE, polls - first))
                )
            )
            for streams in opened:
                group.create_task(poll(streams))
        await asyncio.sleep(_SETTLED)
        print("parked", flush=True)  # noqa: T201 - its one answer.


def _main(url: str, queue: str, polls: int) -> None:
    try:
        asyncio.run(_park(url, queue, polls))
    except* (OSError, EOFError, Failed) as group:
        sys.exit(f"{len(group.exceptions)} errors, the first: {group.exceptions[0]}")


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
