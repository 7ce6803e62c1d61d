"""Notification of systemd for services of Type=notify. Source: sd_notify(3)."""

import socket
from contextlib import suppress
from time import monotonic

from skipmq import config

_pinged = 0.0


def notify(*states: str) -> None:
    """Send state changes to the service manager, if the process has one."""
    address, _ = config.service_manager()
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)  # noqa: FBT003 - the socket module's signature.
        sender.sendto("\n".join(states).encode(), address)


def reloaded() -> None:
    """Notify the service manager that the service reloaded its configuration."""
    notify("RELOADING=1", f"MONOTONIC_USEC={int(monotonic() * 1_000_000)}")
    notify("READY=1")


def ping() -> None:
    """Notify the watchdog if due; call this more often than its timeout requires."""
    global _pinged  # noqa: PLW0603 - one service per process.
    _, seconds = config.service_manager()
    if seconds and monotonic() - _pinged > seconds / 3:
        _pinged = monotonic()
        notify("WATCHDOG=1")
