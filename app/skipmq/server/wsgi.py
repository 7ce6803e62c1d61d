"""A node behind a WSGI server: its loop in a thread of its own, with a janitor."""

import asyncio
import os
import threading
from contextlib import suppress
from dataclasses import replace

import flask

from skipmq import config
from skipmq.broker.node import Node
from skipmq.database import address, schema
from skipmq.server import web
from skipmq.server.answer import Broker
from skipmq.server.processes.heartbeat import Heartbeat
from skipmq.server.processes.janitor import Janitors
from skipmq.server.request_trace import tracing
from skipmq.telemetry import logs
from skipmq.telemetry.metrics import Metrics, Snapshot

# Seconds that the end of the server waits for the node's.
_CLOSE_SECONDS = 5


def application(mount: web.Mount) -> flask.Flask:
    """Return the application of a node with a janitor and what is mounted.

    Raises config.ConfigError, schema.SchemaError, errors.ServiceUnavailable.
    """
    settings = address.checked(config.load()).settings
    if not settings.database_url:
        raise config.ConfigError(["SKIPMQ_DATABASE_URL: a WSGI server needs a database of its own"])
    if not settings.auth:
        # The server's address, on which the default depends, is unknown here.
        settings = replace(settings, auth="on")
    if settings.checks_signatures and not settings.master_key:
        raise config.ConfigError(
            ["SKIPMQ_MASTER_KEY: signatures need one; SKIPMQ_AUTH=off allows every caller"]
        )
    logs.configure(settings.log_level, settings.log_format)
    schema.check_for_node(settings.database_url, warns=True)
    traces = tracing(settings, str(os.getpid()))
    metrics = Metrics(janitor=True)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="broker", daemon=True).start()

    async def start() -> Broker:
        node = Node(settings, settings.database_url, metrics, traces)
        await node.open()
        broker = Broker(node)

        def snapshot() -> Snapshot:
            broker.show()
            return metrics.snapshot()

        janitors = Janitors(node.database, settings, metrics)
        # The server has the connections of clients, whose number is unknown here, and the port.
        node.start(janitors, Heartbeat(node, snapshot, lambda: None, port=None))
        return broker

    broker = asyncio.run_coroutine_threadsafe(start(), loop).result()
    threading.Thread(target=_close_at_the_end, args=(broker.node, loop), daemon=False).start()
    return web.create_app(broker, loop, mount)


def _close_at_the_end(node: Node, loop: asyncio.AbstractEventLoop) -> None:
    """Close the node when the main thread has ended, for which the interpreter waits.

    Not by atexit: by then no thread can be started, as the last export does.
    """
    threading.main_thread().join()
    with suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(node.close(), loop).result(_CLOSE_SECONDS)
