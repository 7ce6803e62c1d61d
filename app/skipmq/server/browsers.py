"""Refuse cross-site requests of browsers to a node that checks no signatures.

A page of any site can post forms, load images, and, with a DNS name that resolves to this node (DNS
rebinding), read the answers. Source: MDN, "Sec-Fetch-Site" and "Origin"; OWASP, "Cross-Site Request
Forgery Prevention Cheat Sheet".
"""

import socket
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from skipmq.actions.dispatch import EVERY
from skipmq.config.settings import Settings
from skipmq.protocol import errors, limits
from skipmq.protocol.call import Call, Request

_OWN_PAGES = {None, "none", "same-origin"}
# Names for this machine and for a container's host, which DNS cannot redirect.
_HOSTS = ("localhost", "host.docker.internal", "host.containers.internal", "*.localhost")
_SIGNED = "AWS4-HMAC-SHA256 "


class Browsers:
    """The host names of a node, and the checks of requests from browsers."""

    def __init__(self, settings: Settings) -> None:
        public = urlsplit(settings.public_url).hostname or ""
        names = {*_HOSTS, socket.gethostname(), settings.host, public, *settings.host_names}
        own = {name.lower() for name in names if name}
        below = tuple(name[1:] for name in own if name.startswith("*."))

        def is_own(host: str) -> bool:
            name = _name(host)
            is_label = "*" in own and name != "" and "." not in name
            return name in own or is_label or name.endswith(below) or _is_address(name)

        self._is_own = is_own

    def refusal(self, host: str | None, site: str | None, origin: str | None, base_url: str) -> str:
        """Return why a request with these headers may be from a page of another site, or ""."""
        if host is not None and (len(host) > limits.HOST or not self._is_own(host)):
            return (
                f"The Host {errors.shown(host)} is not one of this node's names. Add it to"
                " SKIPMQ_ALLOWED_HOSTS, or check signatures (SKIPMQ_AUTH=on)."
            )
        if site in _OWN_PAGES and (origin is None or origin.lower() == base_url.lower()):
            return ""
        return (
            "The request is from a page of another site, which a node that checks no signatures"
            " refuses (SKIPMQ_AUTH=on checks them)."
        )

    @staticmethod
    def check_method(call: Call) -> None:
        """Check that an unsigned GET, as of a link or an image, only reads.

        Raises errors.AccessDenied.
        """
        request = call.request
        action = EVERY[call.action]
        if request.method != "GET" or action.is_read or action.is_link or _is_signed(request):
            return
        raise errors.AccessDenied(
            f"{call.action} must be a POST or a signed GET. A node that checks no signatures"
            " refuses presigned URLs from browsers."
        )


def _is_signed(request: Request) -> bool:
    """Return whether a GET has a signature that a page of another site cannot have set.

    A page cannot set an Authorization header for another site without a preflight, which is refused
    here, but it can put a signature in a URL. Browsers send Sec-Fetch-* only to trustworthy
    addresses, and a page can suppress Referer, so that User-Agent is checked too.
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
    """Return the name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    """Return whether a name is an IP address, which DNS cannot redirect."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
