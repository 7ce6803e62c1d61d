"""A browser without scripts and pictures: cookies, forms, redirects that are looked at."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from html import unescape
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from itertools import count
from typing import Any
from urllib.parse import urlencode

from support.http import Answer, NodeProcess, eventually
from support.key_commands import ACCOUNT

_UNSCOPED = re.compile("(sign-in|sign-out|theme|scope|static|runbook)(?![^/?])")
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Visitor:
    """Somebody at the console of a node; redirects are answers, not followed.

    Each has an address, for a node that believes who passes requests on. Paths are below the
    `account` and region of the visitor, but for pages that belong to none and those that begin with
    a slash.
    """

    _number = count(1)

    def __init__(self, url: str, account: str = "000000000000", region: str = "us-east-1") -> None:
        self.url, self.account, self.region = url, account, region
        self.address = str(ip_address("198.18.0.0") + next(self._number))
        # Of an address, as browsers have it, not of a domain.
        self.cookies = CookieJar(DefaultCookiePolicy(rfc2965=False))
        self._opener = urllib.request.build_opener(
            _Stay(), urllib.request.HTTPCookieProcessor(self.cookies)
        )

    def get(self, path: str, **headers: str) -> Answer:
        return self._send(path, None, headers)

    def post(
        self,
        path: str,
        fields: Mapping[str, str | list[str]] | None = None,
        csrf: str | None = None,
        **headers: str,
    ) -> Answer:
        """Send a form with the token of the visitor's pages, or the one that is given."""
        token = self.csrf() if csrf is None else csrf
        body = urlencode({**(fields or {}), "csrf": token}, doseq=True).encode()
        return self._send(path, body, headers)

    def csrf(self, page: str = "") -> str:
        found = _CSRF.search(self.get(page or "sign-in").body) or _CSRF.search(
            self.get("queues").body
        )
        assert found, "no page has a form"
        return unescape(found[1])

    def sign_in(self, key: str, secret: str, **fields: str) -> Answer:
        return self.post("sign-in", {"key_id": key, "secret": secret, **fields})

    def address_of(self, path: str) -> str:
        """Return the address of a page, without the node's."""
        if path.startswith("/"):
            return path
        is_scoped = path and not _UNSCOPED.match(path)
        return f"/console/{self.region}/{self.account}/{path}" if is_scoped else f"/console/{path}"

    def _send(self, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        headers = {"X-Forwarded-For": self.address, **headers}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + self.address_of(path), body, named)
        try:
            with self._opener.open(request, timeout=40) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())


def signed_in(node: NodeProcess, key: dict[str, str]) -> Visitor:
    """Return a visitor who has signed in, once the node has read the key."""

    def enter() -> Visitor | None:
        visitor = Visitor(node.url, ACCOUNT)
        return visitor if visitor.sign_in(**key).status == 303 else None

    found: Visitor = eventually(enter)
    return found


def records(node: NodeProcess, visitor: Visitor, action: str) -> list[dict[str, Any]]:
    """Return what the audit log has of an action of a visitor."""
    found = [json.loads(line) for line in node.lines if line.startswith("{")]
    return [
        each
        for each in found
        if each["event"] == "audit"
        and each.get("action") == action
        and each["client"] == visitor.address
    ]


def links(page: Answer, label: str) -> list[str]:
    """Return the texts of the links in the navigation of a page with that label."""
    shown = page.body.partition(f'aria-label="{label}"')[2].partition("</nav>")[0]
    return re.findall(r"<a [^>]*>([^<]*)</a>", shown)
