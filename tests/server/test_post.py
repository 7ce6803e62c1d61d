"""Requests to addresses of clients, without a node."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from skipmq.protocol.addresses import network
from skipmq.server.processes.post import RefusedAddressError, Resolver, post
from support.endpoint import Endpoint, endpoint

LOOK_UP = socket.getaddrinfo
HEADERS = {"x-amz-sns-message-type": "Notification"}


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found


def test_look_ups_that_hang_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    release, hanging = threading.Event(), threading.Semaphore(0)

    def look_up(host: str, *rest: Any, **options: Any) -> Any:
        if host.startswith("hangs"):
            hanging.release()
            release.wait(30)
            raise socket.gaierror
        return LOOK_UP(host, *rest, **options)

    async def look_all_up() -> list[str]:
        resolver = Resolver()
        # More than the threads that asyncio has for all look-ups; two for each host.
        stuck = [asyncio.create_task(resolver.addresses(f"hangs{n % 50}")) for n in range(100)]
        for _ in range(50):
            await asyncio.to_thread(hanging.acquire, timeout=30)
        found = await resolver.addresses("127.0.0.1")
        assert not any(each.done() for each in stuck)
        release.set()
        ended = await asyncio.gather(*stuck, return_exceptions=True)
        assert {type(each) for each in ended} == {OSError}
        return found

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert asyncio.run(look_all_up()) == ["127.0.0.1"]
    assert not hanging.acquire(blocking=False)


def test_address_that_was_checked_is_connected_to(
    server: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def rebound(host: str, *rest: Any, **options: Any) -> Any:
        asked.append(host)
        # A name of an attacker, which first is allowed and then another address.
        return LOOK_UP("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *rest, **options)

    port = server.url.rpartition(":")[2]
    url, allowed = f"http://attacker.example:{port}/rebound", (network("127.0.0.1/32"),)
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    status = asyncio.run(post(url, HEADERS, b"x", allowed, resolver))

    assert (status, asked) == (200, ["attacker.example"])
    assert server.next("/rebound").headers["host"] == f"attacker.example:{port}"
    with pytest.raises(RefusedAddressError):
        asyncio.run(post(url, HEADERS, b"x", allowed, resolver))
