"""Who uses the console, in a cookie that every node of the database can read and nobody can make.

The form is BASE64(JSON) `.` BASE64(HMAC-SHA256). The key is derived from the one that authenticates
receipt handles, which all nodes share. Source: OWASP, "Session Management Cheat Sheet".
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec

from skipmq import limits

# Of the database's clock.
SECONDS = 8 * 3600
_LABEL = b"skipmq console session"


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


class Seal:
    """Makes and reads the cookies of sessions; `name` is that of the cookie.

    Browsers send cookies to all ports of a host: the name differs between databases.
    """

    def __init__(self, receipt_key: bytes) -> None:
        if not receipt_key:
            raise ValueError("without a key anybody could make a session")
        self._key = hmac.digest(receipt_key, _LABEL, "sha256")
        self.name = f"skipmq_console_{sha256(self._key).hexdigest()[:8]}"
        self._decoder = msgspec.json.Decoder(Session)

    def close(self, session: Session) -> str:
        """Return the cookie of a session."""
        content = msgspec.json.encode(session)
        return f"{_text(content)}.{_text(self._mac(content))}"

    def open(self, cookie: str) -> Session | None:
        """Return the session of a cookie, or None when no node has made it."""
        content, _, mac = cookie.partition(".")
        try:
            found, given = urlsafe_b64decode(content), urlsafe_b64decode(mac)
        except ValueError:
            return None
        if not hmac.compare_digest(self._mac(found), given):
            return None
        try:
            return self._decoder.decode(found)
        except msgspec.DecodeError:  # Of another release.
            return None

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode()
