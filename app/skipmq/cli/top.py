"""The `top` command: live statistics of the busiest queues in full screen."""

import asyncio
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from time import monotonic

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from skipmq import errors
from skipmq.cli.environment import configuration
from skipmq.cli.node import open_node
from skipmq.cli.output import out, silence
from skipmq.cli.queue.stats import count, duration, order_option, rate, statistics_table
from skipmq.model import QueueStatistics
from skipmq.node import Node
from skipmq.store.statistics import Order

_ORDERS: dict[str, Order] = {"n": "name", "m": "messages", "r": "rate", "d": "dead-lettered"}
# The lines of the screen other than those of queues.
_OTHER_LINES = 9
# Escape sequences of arrow and function keys, which contain letters.
_SEQUENCE = re.compile(rb"\x1b(\[[0-9;]*.?|O.|)")
# These signals quit like `q`, so that the terminal is restored.
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Top:
    """The screen of the command; for one event loop."""

    def __init__(self, node: Node, order: Order) -> None:
        self._node, self._order = node, order
        self._own = (node.settings.account, node.settings.region)
        self._refresh = asyncio.Event()
        self._queues: list[QueueStatistics] = []
        self._others: QueueStatistics | None = None
        # The database's time in seconds since 1970, and the monotonic time of the same moment.
        self._clock = self._read_at = 0.0
        self._failure = ""

    async def read(self) -> None:
        """Read the statistics of the queues that fit the screen.

        Raises errors.ServiceUnavailable.
        """
        await self._node.monitor.check()
        limit = max(1, out.size.height - _OTHER_LINES)
        statistics = await self._node.statistics.queues(limit, order=self._order)
        self._clock = await self._node.inspection.clock(0.0)
        self._queues, self._others = statistics
        self._read_at = monotonic()

    async def run(self, live: Live, descriptor: int, interval: float) -> None:
        """Refresh the statistics every `interval` seconds until a key or a signal ends it.

        The last statistics stay on the screen while the database is unavailable.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for each in _STOP_SIGNALS:
            loop.add_signal_handler(each, task.cancel)
        loop.add_signal_handler(signal.SIGWINCH, self._refresh.set)
        loop.add_reader(descriptor, self._read_keys, descriptor, task)
        try:
            while True:
                live.update(self._screen(), refresh=True)
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval):
                        await self._refresh.wait()
                self._refresh.clear()
                await self._try_to_read()
        except asyncio.CancelledError:  # Also Ctrl-C.
            return
        finally:
            loop.remove_reader(descriptor)

    async def _try_to_read(self) -> None:
        try:
            await self.read()
        except errors.NeedsOperator as error:
            self._failure = error.message
        except errors.DatabaseReadOnly:
            self._failure = "the database is read-only"
        except errors.ServiceUnavailable:
            self._failure = "the database is unavailable"
        else:
            self._failure = ""

    def _read_keys(self, descriptor: int, task: asyncio.Task[None]) -> None:
        try:
            keys = os.read(descriptor, 64)
        except OSError:
            keys = b""
        if not keys:  # The terminal was closed.
            task.cancel()
        for key in _SEQUENCE.sub(b"", keys).decode(errors="replace").lower():
            if key == "q":
                task.cancel()
            elif key in _ORDERS:
                self._order = _ORDERS[key]
                self._refresh.set()

    def _screen(self) -> Group:
        assert self._others is not None
        keys = "  ".join(f"{key} {order}" for key, order in _ORDERS.items())
        return Group(
            self._head(self._others),
            "",
            statistics_table(self._queues, self._others, self._own),
            "",
            Text(f"by {self._order}    keys: {keys}  q quit", "dim"),
        )

    def _head(self, others: QueueStatistics) -> Text:
        every = (*self._queues, others)
        parts = [
            f"{datetime.fromtimestamp(self._clock, UTC):%H:%M:%S} UTC",
            f"{count(sum(each.queues for each in every))} queues",
            f"{count(sum(each.messages or 0 for each in every))} messages",
            f"sent {rate(sum(each.sent_per_minute or 0 for each in every) / 60)}/s",
            f"received {rate(sum(each.received_per_minute or 0 for each in every) / 60)}/s",
            f"deleted {rate(sum(each.deleted_per_minute or 0 for each in every) / 60)}/s",
        ]
        head = Text("  ".join(parts) + "  ", "bold")
        if self._failure:
            age = duration(monotonic() - self._read_at)
            return head.append(f"{self._failure}: statistics of {age} ago", "red")
        state = self._node.monitor.state
        return head.append(
            f"database {state.replace('_', ' ')}", "green" if state == "writable" else "yellow"
        )


@contextmanager
def _cbreak(descriptor: int) -> Iterator[None]:
    """Put a terminal into cbreak mode, in which keys are read at once, and disable Ctrl-Z."""
    saved = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        modes = termios.tcgetattr(descriptor)
        modes[-1][termios.VSUSP] = os.fpathconf(descriptor, "PC_VDISABLE").to_bytes()
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, saved)


@click.command("top")
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=2,
    show_default=True,
    help="Seconds between two refreshes.",
)
@order_option
def top(*, interval: float, order: Order) -> None:
    """Show the busiest queues live until q or Ctrl-C.

    The keys n, m, r and d sort by name, messages, rate and dead-lettered messages.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or out.is_dumb_terminal:
        raise click.ClickException(
            "top needs a terminal: programs can use `skipmq queue stats --json`"
        )
    descriptor = sys.stdin.fileno()
    with open_node(configuration().settings) as node:
        screen = Top(node.node, order)
        node.run(screen.read())
        with (
            _cbreak(descriptor),
            silence(),
            Live(console=out, screen=True, auto_refresh=False) as live,
        ):
            node.run(screen.run(live, descriptor, interval))
