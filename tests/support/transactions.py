"""Transactions of a group commit."""

import asyncio
from collections.abc import Sequence


class Transactions:
    """Runs requests as a group commit has them run; each call waits until it is released."""

    def __init__(self, *, held: bool = True) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.deadlines: list[float] = []
        self.refused: dict[int, Exception] = {}
        self._released = asyncio.Event()
        if not held:
            self.release()

    async def run(self, key: str, requests: Sequence[int], deadline: float) -> list[str]:
        self.calls.append((key, list(requests)))
        self.deadlines.append(deadline)
        await self._released.wait()
        for request in requests:
            if request in self.refused:
                raise self.refused[request]
        return [f"{key}{request}" for request in requests]

    def release(self) -> None:
        """Let all calls go on, now and in future."""
        self._released.set()

    @property
    def requests(self) -> list[list[int]]:
        return [requests for _, requests in self.calls]
