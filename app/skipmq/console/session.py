"""Who uses the console, in a cookie that every node of the database can read and nobody can make.

The form is BASE64(JSON) `.` BASE64(HMAC-SHA256). The key is derived from the newest one that
authenticates receipt handles, which all nodes share, and from a master key, which no backup of the
database has. Only a node that checks no signatures may have none: its cookies open nothing.
Source: OWASP, "Session Management Cheat Sheet".
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from skipmq import limits

# Of the database's clock.
SECONDS = 8 * 3600
# Nodes estimate that clock, each for itself.
_CLOCKS_DIFFER = 60.0
_PORT = re.compile(r":([0-9]+)\Z")
_LABEL = b"skipmq console session"


def cookie_name(base_url: str) -> str:
    """Return the name of the cookie at an address.

    Browsers send cookies to all ports of a host (RFC 6265, section 8.5): with the port in the name,
    consoles of two databases on one host leave each other's sessions alone.
    """
    port = _PORT.search(base_url)
    return f"skipmq_console_{port[1] if port else urlsplit(base_url).scheme}"


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser carries from page to page: `key_id` is empty while nobody has signed in.

    `until` is when it ends, in seconds since 1970, by the database's clock.
    """

    # What a form sends back, which no other site can read.
    csrf: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(24))
    key_id: str = ""
    account: str = limits.DEFAULT_ACCOUNT
    region: str = limits.DEFAULT_REGION
    until: float = 0.0
    # Shown on the next page, once.
    notice: str = ""

    @property
    def digest(self) -> bytes:
        """Return what the session is known by when it has been signed out of."""
        return sha256(self.csrf.encode()).digest()

    def lasts(self, now: float) -> bool:
        """Tell whether the end of the session is to come, and no later than a node sets it."""
        return 0 < self.until - now <= SECONDS + _CLOCKS_DIFFER


class Seal:
    """Makes and reads the cookies of sessions.

    The first master key seals, each opens what it has sealed.
    """

    def __init__(self, receipt_key: bytes, master_keys: Sequence[bytes]) -> None:
        if not receipt_key:
            raise ValueError("without a key anybody could make a session")
        self.receipt_key = receipt_key
        shared = hmac.digest(receipt_key, _LABEL, "sha256")
        self._keys = [hmac.digest(key, shared, "sha256") for key in master_keys] or [shared]
        self._decoder = msgspec.json.Decoder(Session)

    def close(self, session: Session) -> str:
        """Return the cookie of a session."""
        content = msgspec.json.encode(session)
        return f"{_text(content)}.{_text(_mac(content, self._keys[0]))}"

    def open(self, cookie: str) -> Session | None:
        """Return the session of a cookie, or None when no node has made it."""
        content, _, mac = cookie.partition(".")
        try:
            found, given = urlsafe_b64decode(content), urlsafe_b64decode(mac)
        except ValueError:
            return None
        if not any(hmac.compare_digest(_mac(found, key), given) for key in self._keys):
            return None
        try:
            return self._decoder.decode(found)
        except msgspec.DecodeError:  # Of another release.
            return None


def _mac(content: bytes, key: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode()
