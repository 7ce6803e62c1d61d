"""Notifies systemd of the state of a service of Type=notify. Source: sd_notify(3)."""

import socket
from contextlib import suppress
from time import monotonic

from skipmq import config

_pinged = 0.0


def notify(*states: str) -> None:
    """Notify the service manager of states, where there is one that listens."""
    address, _ = config.service_manager()
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)  # noqa: FBT003 - the socket module's.
        sender.sendto("\n".join(states).encode(), address)


def reloaded() -> None:
    """Notify it that the service has read something of its configuration again."""
    notify("RELOADING=1", f"MONOTONIC_USEC={int(monotonic() * 1_000_000)}")
    notify("READY=1")


def ping() -> None:
    """Notify its watchdog, as often as that wants; to be called more often."""
    global _pinged  # noqa: PLW0603 - one service a process.
    _, seconds = config.service_manager()
    if seconds and monotonic() - _pinged > seconds / 3:
        _pinged = monotonic()
        notify("WATCHDOG=1")
