"""The console's session, in an authenticated cookie that every node of the database accepts.

The format is BASE64(JSON) `.` BASE64(HMAC-SHA256). The key is derived from the newest key of
receipt handles, which all nodes share, and from a master key, which backups of the database do not
contain. A node without signature checks may have no master key: its cookies grant no rights.
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
from werkzeug.http import parse_cookie

from skipmq.protocol import limits
from skipmq.protocol.call import Request

# The lifetime of a session, by the database's clock.
SECONDS = 8 * 3600
# Each node estimates the database's clock.
_CLOCK_TOLERANCE = 60.0
_PORT = re.compile(r":([0-9]+)\Z")
_LABEL = b"skipmq console session"


def cookie_name(base_url: str) -> str:
    """Return the name of the cookie for a base URL.

    Browsers send cookies to all ports of a host (RFC 6265, section 8.5), so the name contains the
    port to separate several consoles on a host.
    """
    port = _PORT.search(base_url)
    return f"skipmq_console_{port[1] if port else urlsplit(base_url).scheme}"


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a browser; `key_id` is empty before the sign-in.

    `until` is its end in seconds since 1970 by the database's clock.
    """

    csrf: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(24))
    key_id: str = ""
    account: str = limits.DEFAULT_ACCOUNT
    region: str = limits.DEFAULT_REGION
    until: float = 0.0
    # A message for the next page.
    notice: str = ""

    @property
    def digest(self) -> bytes:
        """Return the ID by which the database records that the session was ended."""
        return sha256(self.csrf.encode()).digest()

    def is_valid(self, now: float) -> bool:
        """Return whether the session has not ended; one that is too long is invalid."""
        return 0 < self.until - now <= SECONDS + _CLOCK_TOLERANCE


class Seal:
    """Signs and verifies the cookies of sessions.

    The first master key signs, all of them verify.
    """

    def __init__(self, receipt_key: bytes, master_keys: Sequence[bytes]) -> None:
        if not receipt_key:
            raise ValueError("the receipt key must not be empty, or sessions could be forged")
        self.receipt_key = receipt_key
        shared = hmac.digest(receipt_key, _LABEL, "sha256")
        self._keys = [hmac.digest(key, shared, "sha256") for key in master_keys] or [shared]
        self._decoder = msgspec.json.Decoder(Session)

    def close(self, session: Session) -> str:
        """Return the cookie of a session."""
        content = msgspec.json.encode(session)
        return f"{_text(content)}.{_text(_mac(content, self._keys[0]))}"

    def open(self, cookie: str) -> Session | None:
        """Return the session of a cookie, or None if its signature is invalid."""
        encoded_content, _, encoded_mac = cookie.partition(".")
        try:
            content, mac = urlsafe_b64decode(encoded_content), urlsafe_b64decode(encoded_mac)
        except ValueError:
            return None
        if not any(hmac.compare_digest(_mac(content, key), mac) for key in self._keys):
            return None
        try:
            return self._decoder.decode(content)
        except msgspec.DecodeError:  # The cookie of another release.
            return None


def session_of(
    request: Request, receipt_key: bytes, master_keys: Sequence[bytes]
) -> Session | None:
    """Return the session in the cookie of a request, or None if there is none that is valid."""
    cookie = parse_cookie(request.headers.get("cookie")).get(cookie_name(request.base_url), "")
    return Seal(receipt_key, master_keys).open(cookie) if cookie and receipt_key else None


def _mac(content: bytes, key: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode()
