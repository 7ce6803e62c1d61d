"""Refuses what a page in a browser could make it send to a node that checks no signatures.

A page of any site can post forms, load images, and, by a name that it lets point here (DNS
rebinding), read the answers. Source: MDN, "Sec-Fetch-Site" and "Origin"; OWASP, "Cross-Site Request
Forgery Prevention Cheat Sheet".
"""

import socket
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from skipmq import errors, limits
from skipmq.actions import EVERY
from skipmq.protocol import Call, Request
from skipmq.settings import Settings

_OWN_PAGES = {None, "none", "same-origin"}
# How containers call the machine that they run on; nobody else can have these names.
_HOSTS = ("localhost", "host.docker.internal", "host.containers.internal", "*.localhost")
_SIGNED = "AWS4-HMAC-SHA256 "


class Browsers:
    """The names that a node has, and what a request says of the page that made it."""

    def __init__(self, settings: Settings) -> None:
        public = urlsplit(settings.public_url).hostname or ""
        names = {*_HOSTS, socket.gethostname(), settings.host, public, *settings.host_names}
        own = {name.lower() for name in names if name}
        below = tuple(name[1:] for name in own if name.startswith("*."))

        @lru_cache(maxsize=1024)
        def is_own(host: str) -> bool:
            name = _name(host)
            is_label = "*" in own and name != "" and "." not in name
            return name in own or is_label or name.endswith(below) or _is_address(name)

        self._is_own = is_own

    def check(self, request: Request) -> None:
        """Check that no page of another site has made a request.

        Raises errors.AccessDenied.
        """
        host = request.headers.get("host")
        if host is not None and (len(host) > limits.HOST or not self._is_own(host)):
            raise errors.AccessDenied(
                f"The Host {errors.shown(host)} is none of this node's names. SKIPMQ_ALLOWED_HOSTS"
                " takes others; requests that are signed (SKIPMQ_AUTH=on) can have any."
            )
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site in _OWN_PAGES and (origin is None or origin.lower() == request.base_url.lower()):
            return
        raise errors.AccessDenied(
            "A page of another site has made this request. A node that checks no signatures"
            " (SKIPMQ_AUTH=on checks them) takes none from there."
        )

    @staticmethod
    def check_method(call: Call) -> None:
        """Check that a GET, which any link or image makes, changes nothing unless it is signed.

        Raises errors.AccessDenied.
        """
        request = call.request
        if request.method != "GET" or EVERY[call.action].is_read or _is_signed(request):
            return
        raise errors.AccessDenied(
            f"{call.action} changes something: send a POST, or sign the GET. A node that checks no"
            " signatures takes no presigned URL from a browser."
        )


def _is_signed(request: Request) -> bool:
    """Report whether a GET carries a signature that no page can have put there.

    A page sets no Authorization header of another site without a preflight, which no door answers;
    it may put a signature in a URL. Browsers send Sec-Fetch-* to trustworthy addresses only, and a
    page may withhold its Referer: their User-Agent remains.
    """
    if (request.headers.get("authorization") or "").startswith(_SIGNED):
        return True
    if "X-Amz-Signature" not in parse_qs(request.query):
        return False
    headers = {name.lower(): value for name, value in request.headers.items()}
    return not (
        "origin" in headers
        or "referer" in headers
        or any(name.startswith("sec-fetch-") for name in headers)
        or headers.get("user-agent", "").startswith("Mozilla/")
    )


def _name(host: str) -> str:
    """Return the name in a Host, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    """Tell whether a name is an address, which cannot be made to point elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
