"""Waiting for facts without keeping the event loop from making them true."""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from time import monotonic
from typing import Any


async def eventually(condition: Callable[[], Any], seconds: float = 120, why: str = "") -> Any:
    """Return the first true value of a condition, which may be a coroutine; fail without one."""
    deadline = monotonic() + seconds
    while True:
        value = condition()
        if isawaitable(value):
            value = await value
        if value:
            return value
        if monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {why or condition}")
        await asyncio.sleep(0.002)
