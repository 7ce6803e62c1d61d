"""An RSGI application that reads a request and answers a constant: what the server alone costs."""

from typing import Any

_HEADERS = [("content-type", "application/x-amz-json-1.0")]


async def app(_scope: Any, protocol: Any) -> None:
    await protocol()
    protocol.response_bytes(200, _HEADERS, b"{}")
