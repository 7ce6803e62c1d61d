"""The health and the metrics of a worker, over HTTP."""

import asyncio
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from skipmq.client.claiming import Runner
from skipmq.client.errors import ClientError
from skipmq.client.source import Source

LOOPBACK = "127.0.0.1"
_SECONDS = 5.0
# Connections at once, bytes of a line, and lines of a request.
_CONNECTIONS, _LINE, _LINES = 32, 8_192, 100


async def start_health(
    host: str, port: int, runners: Sequence[Runner], source: Source
) -> asyncio.Server:
    """Serve /health/live, /health/ready and /metrics; raise ClientError where the port is taken.

    A worker is ready while it is connected to the broker.
    """
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            async with asyncio.timeout(_SECONDS):
                if connections <= _CONNECTIONS:
                    writer.write((await answer(reader)).encode())
                    await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # A client that disconnects, or asks for something else.
        finally:
            connections -= 1
            writer.close()

    async def answer(reader: asyncio.StreamReader) -> str:
        _, path, *_ = [*(await reader.readline()).decode("latin-1").split(), "", ""]
        for _ in range(_LINES):
            line = (await reader.readline()).decode("latin-1").strip()
            name, _, value = line.partition(":")
            if not line:
                return _answer(path, runners, source)
            if name.lower() == "host" and not _is_own(value.strip(), host):
                break
        return _encoded("403 Forbidden", "Host must be an address, localhost or --health-host\n")

    try:
        return await asyncio.start_server(serve, host, port, limit=_LINE)
    except OSError as error:
        raise ClientError(
            f"port {port} of {host} cannot be listened on ({error}): take another"
        ) from error


def _is_own(value: str, host: str) -> bool:
    """Return whether a Host header names the worker; another name may be a page's, by DNS."""
    name = value[1:].partition("]")[0] if value[:1] == "[" else value.partition(":")[0].lower()
    if name in ("localhost", host.lower()):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _answer(path: str, runners: Sequence[Runner], source: Source) -> str:
    match path.partition("?")[0]:
        case "/health/live":
            status, text = "200 OK", "alive\n"
        case "/health/ready" if source.is_open:
            status, text = "200 OK", "ready\n"
        case "/health/ready":
            status, text = "503 Service Unavailable", "no connection to the broker\n"
        case "/metrics":
            status, text = "200 OK", "".join(f"{line}\n" for line in _metrics(runners))
        case _:
            status, text = "404 Not Found", "/health/live, /health/ready, /metrics\n"
    return _encoded(status, text)


def _encoded(status: str, text: str) -> str:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"
    return f"{head}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}"


def _metrics(runners: Sequence[Runner]) -> Iterator[str]:
    yield "# HELP skipmq_work_messages_total Messages by what became of them."
    yield "# TYPE skipmq_work_messages_total counter"
    for runner in runners:
        for outcome, count in sorted(runner.outcomes.items()):
            labels = f'queue="{runner.queue.name}",outcome="{outcome}"'
            yield f"skipmq_work_messages_total{{{labels}}} {count}"
    yield "# HELP skipmq_work_seconds_total Time that handlers took."
    yield "# TYPE skipmq_work_seconds_total counter"
    for runner in runners:
        yield f'skipmq_work_seconds_total{{queue="{runner.queue.name}"}} {runner.seconds:.6f}'
    yield "# HELP skipmq_work_running Handlers that run."
    yield "# TYPE skipmq_work_running gauge"
    for runner in runners:
        yield f'skipmq_work_running{{queue="{runner.queue.name}"}} {runner.running}'
