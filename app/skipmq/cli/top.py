"""The `top` command: live statistics of the busiest queues in full screen."""

import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any, NoReturn

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from skipmq.broker.statistics import Order, QueueStatistics
from skipmq.cli import place
from skipmq.cli.output import out, silence, snake
from skipmq.cli.queue.stats import count, duration, order_option, rate, records, statistics_table
from skipmq.cli.remote import RemoteError
from skipmq.cli.source import Source, open_source
from skipmq.protocol import errors

_ORDERS: dict[str, Order] = {"n": "name", "m": "messages", "r": "rate", "d": "dead-lettered"}
# The lines of the screen other than those of queues.
_OTHER_LINES = 9
# Escape sequences of arrow and function keys, which contain letters.
_SEQUENCE = re.compile(rb"\x1b(\[[0-9;]*.?|O.|)")
_QUIT = "q"
# The terminal sends SIGQUIT for the key `q`, which so interrupts a refresh that waits for the node.
# All restore the terminal.
_QUIT_SIGNALS = (signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
# The longest time in seconds that a refresh waits for the database.
_SECONDS = 5.0
# The names in GetOverview of fields of a sum of queues.
_TOTALS = ("Messages", "SentPerMinute", "ReceivedPerMinute", "DeletedPerMinute")


class _Quit(KeyboardInterrupt):
    """The user has ended the command."""


class Top:
    """The screen of the command."""

    def __init__(self, node: Source, order: Order) -> None:
        self._node, self._order = node, order
        self._queues: list[QueueStatistics] = []
        self._others: QueueStatistics | None = None
        # GetOverview's answer, in which what the key may not see is absent.
        self._overview: dict[str, Any] = {}
        # The database's time in seconds since 1970, and the monotonic time of the same moment.
        self._clock = self._read_at = 0.0
        self._failure = ""

    def read(self) -> None:
        """Read the statistics of the queues that fit the screen.

        Raises errors.SqsError or RemoteError.
        """
        limit = min(max(1, out.size.height - _OTHER_LINES), self._node.counted_queues)
        # With Minutes the answer has the time.
        page = self._node.act("ListQueueStatistics", Order=self._order, MaxResults=limit, Minutes=1)
        self._overview = self._node.act("GetOverview", MaxResults=1)
        self._queues, self._others = records(page)
        self._clock, self._read_at = page["Clock"], monotonic()

    def run(self, live: Live, descriptor: int, signalled: int, interval: float) -> None:
        """Refresh the statistics every `interval` seconds until a key or a signal ends it.

        The last statistics stay on the screen while the node or the database is unavailable.
        """
        while True:
            live.update(self._screen(), refresh=True)
            ready, _, _ = select.select([descriptor, signalled], [], [], interval)
            if signalled in ready:
                os.read(signalled, 64)
            if descriptor in ready:
                self._obey(descriptor)
            self._try_to_read()

    def _try_to_read(self) -> None:
        try:
            self.read()
        except errors.NeedsOperator as error:
            self._failure = error.message
        except errors.DatabaseReadOnly:
            self._failure = "the database is read-only"
        except errors.ServiceUnavailable:
            self._failure = "the database is unavailable"
        except RemoteError as error:
            self._failure = str(error)
        else:
            self._failure = ""

    def _obey(self, descriptor: int) -> None:
        """Obey the keys that were pressed; raise _Quit for the one that quits."""
        try:
            keys = os.read(descriptor, 64)
        except OSError:
            keys = b""
        for key in _SEQUENCE.sub(b"", keys).decode(errors="replace").lower():
            if key == _QUIT:
                raise _Quit
            self._order = _ORDERS.get(key, self._order)
        if not keys:  # The terminal is closed.
            raise _Quit

    def _screen(self) -> Group:
        assert self._others is not None
        keys = "  ".join(f"{key} {order}" for key, order in _ORDERS.items())
        return Group(
            self._head(self._others),
            "",
            statistics_table(self._queues, self._others),
            "",
            Text(f"by {self._order}    keys: {keys}  q quit", "dim"),
        )

    def _head(self, others: QueueStatistics) -> Text:
        every = (*self._queues, others)
        parts = [
            f"{datetime.fromtimestamp(self._clock, UTC):%H:%M:%S} UTC",
            f"{count(sum(each.queues for each in every))} queues",
        ]
        totals = self._totals(every)
        if totals:
            parts += [
                f"{count(totals['Messages'])} messages",
                *(
                    f"{name} {rate(totals[f'{name.capitalize()}PerMinute'] / 60)}/s"
                    for name in ("sent", "received", "deleted")
                ),
            ]
        head = Text("  ".join(parts) + "  ", "bold")
        if self._failure:
            age = duration(monotonic() - self._read_at)
            return head.append(f"{self._failure}: statistics of {age} ago", "red")
        state = self._overview.get("Database", {}).get("State")
        if state is None:
            return head
        return head.append(
            f"database {state.replace('_', ' ')}", "green" if state == "writable" else "yellow"
        )

    def _totals(self, every: Sequence[QueueStatistics]) -> Mapping[str, float]:
        """Return the sums of all queues by their names in GetOverview, if they are known."""
        if every[-1].queues and every[-1].messages is None:
            totals: Mapping[str, float] = self._overview.get("Totals", {})
            return totals
        return {
            member: sum(getattr(each, snake(member)) or 0 for each in every) for member in _TOTALS
        }


@contextmanager
def _signals() -> Iterator[int]:
    """Yield a file that is readable after a signal; those that quit raise _Quit."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        for each in _QUIT_SIGNALS:
            signal.signal(each, _quit)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        yield readable
    finally:
        signal.set_wakeup_fd(-1)
        os.close(readable)
        os.close(writable)


def _quit(*_: object) -> NoReturn:
    raise _Quit


def _is_own(descriptor: int) -> bool:
    """Return whether a terminal sends this process its signals."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def _cbreak(descriptor: int) -> Iterator[None]:
    """Put a terminal into cbreak mode, in which keys are read at once.

    Ctrl-Z is disabled, and the key that quits is the one that sends SIGQUIT.
    """
    saved = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        modes = termios.tcgetattr(descriptor)
        modes[-1][termios.VSUSP] = os.fpathconf(descriptor, "PC_VDISABLE").to_bytes()
        if _is_own(descriptor):
            modes[-1][termios.VQUIT] = _QUIT.encode()
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, saved)


@click.command("top")
@place.reached
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=2,
    show_default=True,
    help="Seconds between two refreshes.",
)
@order_option
def top_command(*, interval: float, order: Order) -> None:
    """Show the busiest queues live until q or Ctrl-C.

    Without a place all accounts and regions are shown; by --endpoint, the account of the key and
    its region. The keys n, m, r and d sort by name, messages, rate and dead-lettered messages.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or out.is_dumb_terminal:
        raise click.ClickException(
            "top needs a terminal: programs can use `skipmq queue stats --json`"
        )
    descriptor = sys.stdin.fileno()
    with suppress(_Quit), open_source(everywhere=True, seconds=_SECONDS) as node:
        screen = Top(node, order)
        screen.read()
        with (
            _signals() as signalled,
            _cbreak(descriptor),
            silence(),
            Live(console=out, screen=True, auto_refresh=False) as live,
        ):
            screen.run(live, descriptor, signalled, interval)
