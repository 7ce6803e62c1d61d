"""The blueprint of the console, and the processing before and after each view.

Source: OWASP, "Content Security Policy Cheat Sheet", "Cross-Site Request Forgery Prevention Cheat
Sheet", "Session Management Cheat Sheet".
"""

import asyncio
import hmac
from collections.abc import Callable, Iterable
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import flask
import msgspec
from flask.typing import ResponseReturnValue
from jinja2 import Environment
from werkzeug.exceptions import RequestEntityTooLarge

from skipmq.console import bodies, formats, scope, terminal
from skipmq.console.session import SECONDS, Seal, Session, cookie_name
from skipmq.console.visit import Visit
from skipmq.protocol import errors, limits
from skipmq.protocol.call import Request
from skipmq.protocol.identity import Identity
from skipmq.server import web
from skipmq.server.answer import Broker

View: TypeAlias = Callable[..., ResponseReturnValue]
# Adds views to the blueprint.
Page: TypeAlias = Callable[[flask.Blueprint], None]
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none';"
    " base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # Without this header, browsers would send forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FOREIGN_FORM = "The form is out of date, or another site has sent it. Reload its page."
THEMES = ("auto", "light", "dark")
_THEME, _YEAR = "skipmq_theme", 365 * 86_400
_SAFE = {"GET", "HEAD"}


class MenuPage(NamedTuple):
    """A page of the menu: its view, what it is called, its key, and the permission to open it.

    That is of all queues; a key without any may open queues by name.
    """

    view: str
    label: str
    key: str
    permission: str = ""


_MENU = (
    MenuPage("overview", "Overview", "o", "ListQueues"),
    MenuPage("queues", "Queues", "q"),
    MenuPage("dead_letters", "Dead letters", "d", "ListQueues"),
    MenuPage("database", "Database", "b", "DescribeDatabase"),
    MenuPage("nodes", "Nodes", "n", "DescribeDatabase"),
    MenuPage("all_tasks", "Tasks", "t", "ListMessageMoveTasks"),
    MenuPage("topics", "Topics", "p", "ListTopics"),
    MenuPage("schedules", "Schedules", "s", "ListQueues"),
    MenuPage("access_keys", "Keys", "k", "ListAccessKeys"),
    MenuPage("audit", "Audit log", "a", "ListAuditRecords"),
)
# Views that do not require a sign-in.
_PUBLIC = {"console.static", "console.sign_in", "console.theme"}
_STATIC = Path(__file__).parent / "static"


def blueprint(
    broker: Broker, loop: asyncio.AbstractEventLoop, pages: Iterable[Page]
) -> flask.Blueprint:
    """Return the blueprint of a broker's console."""
    made = scope.Pages(
        "console",
        __name__,
        url_prefix=web.PAGES.rstrip("/"),
        static_folder=str(_STATIC),
        static_url_path="/static",
        template_folder="templates",
    )
    site = _Site(broker, loop)
    made.record_once(lambda state: _configure(state.app.jinja_env))
    made.before_request(site.before_request)
    made.after_request(site.after_request)
    made.register_error_handler(errors.SqsError, _error_page)
    made.register_error_handler(RequestEntityTooLarge, _too_long)
    made.context_processor(site.context)
    for each in (*formats.FILTERS, bodies.laid_out):
        made.add_app_template_filter(each)
    for page in pages:
        page(made)

    made.add_url_rule("/<path:rest>", "not_found", _not_found, methods=["GET", "POST"])
    made.add_url_rule("/<path:rest>", "unscoped", _unscoped, methods=["GET", "POST"])
    return made


def put(session: Session) -> None:
    """Replace the session of the browser."""
    flask.g.session, flask.g.is_changed = session, True


def session() -> Session:
    """Return the session of the browser."""
    current: Session = flask.g.session
    return current


def notice(text: str) -> None:
    """Show a message on the next page."""
    put(changed(session(), notice=text))


def see(view: str, **values: Any) -> flask.Response:
    """Redirect to a view after a form was processed."""
    return flask.redirect(flask.url_for(f"console.{view}", **values), 303)  # type: ignore[return-value]


def showing_errors(
    page: Callable[..., ResponseReturnValue], *arguments: str
) -> Callable[[View], View]:
    """Have the view of a form show its page, with the error, when what was asked for fails."""

    def decorated(view: View) -> View:
        @wraps(view)
        def answered(**values: Any) -> ResponseReturnValue:
            try:
                return view(**values)
            except errors.SqsError as error:
                return page(*values.values(), *arguments, error)

        return answered

    return decorated


class _Site:
    """The processing of a broker's console before and after each view."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker, self._loop = broker, loop
        self._cached_seal: Seal | None = None
        self._versions = {
            file.name: sha256(file.read_bytes()).hexdigest()[:12] for file in _STATIC.iterdir()
        }

    @property
    def _seal(self) -> Seal:
        """Return the seal of the present receipt key.

        Raises errors.ServiceUnavailable until the node is open, which reads that key.
        """
        node = self._broker.node
        node.check_open()
        seal, receipt_key = self._cached_seal, node.receipt_keys.newest
        if seal is None or seal.receipt_key != receipt_key:
            seal = self._cached_seal = Seal(receipt_key, node.settings.master_keys)
        return seal

    def _new_session(self) -> Session:
        own = self._broker.node.settings
        return Session(account=own.account, region=own.region)

    def before_request(self) -> ResponseReturnValue | None:
        """Authenticate the request; redirect to the sign-in or raise an error if that fails."""
        flask.g.session, flask.g.is_changed = self._new_session(), False
        request, refused = web.current_request(self._broker)
        identity = self._broker.node.settings.identity
        flask.g.visit = Visit(self._broker, self._loop, request, identity)
        flask.request.max_content_length = limits.FORM_BYTES
        if refused is not None:
            raise refused
        try:
            self._broker.check_browser(request)
        except errors.AccessDenied as error:
            flask.g.visit.run(self._broker.note_refusal(request, error))
            raise
        if flask.request.endpoint == "console.static":
            return None
        cookie = self._seal.open(flask.request.cookies.get(cookie_name(request.base_url), ""))
        signed_in = flask.g.visit.run(self._identity(cookie))
        if cookie is None or (signed_in is None and cookie.key_id):
            put(self._new_session())
        else:
            flask.g.session = cookie
        if signed_in is None and flask.request.endpoint not in _PUBLIC:
            return _redirect_to_sign_in()
        if signed_in is not None and cookie is not None:
            flask.request.max_content_length = limits.REQUEST_BYTES
        flask.g.visit.identity = signed_in or identity
        _check_scope(flask.g.visit.identity)
        if flask.request.method not in _SAFE and not _is_own_form(request):
            refusal = errors.AccessDenied(FOREIGN_FORM)
            flask.g.visit.run(self._broker.note_refusal(request, refusal))
            raise refusal
        return None

    async def _identity(self, cookie: Session | None) -> Identity | None:
        """Return the identity that has signed in, if its session and its key are still valid.

        Its region is that of the address, or without one that of the session; and so is, without
        signature checks, its account.
        """
        keys = self._broker.node.keys
        session = cookie or self._new_session()
        place = scope.requested() or scope.Scope(session.account, session.region)
        if keys is None:
            return Identity(place.account, place.region, place.account)
        if cookie is None or not cookie.key_id or not cookie.is_valid(keys.now()):
            return None
        if keys.has_ended(cookie.digest):
            return None
        return keys.identity(cookie.key_id, place.region)

    def after_request(self, response: flask.Response) -> flask.Response:
        """Add security and caching headers, and the cookie if the session has changed."""
        response.headers.update(HEADERS)
        if flask.request.endpoint == "console.static" and response.status_code == 200:  # noqa: PLR2004
            is_current = flask.request.args.get("v") == self._versions.get(
                (flask.request.view_args or {})["filename"]
            )
            response.cache_control.no_cache = None if is_current else True
            response.cache_control.max_age = _YEAR if is_current else None
            response.cache_control.immutable = is_current
            return response
        response.cache_control.no_store = True
        if flask.g.is_changed:
            response.set_cookie(value=self._seal.close(session()), **self._cookie())
        return response

    def _cookie(self) -> dict[str, Any]:
        base_url = flask.g.visit.request.base_url
        return {
            "key": cookie_name(base_url),
            "path": web.PAGES,
            "secure": urlsplit(base_url).scheme == "https",
            "httponly": True,
            "samesite": "Strict",
        }

    def context(self) -> dict[str, Any]:
        """Return the variables of all templates."""
        is_fragment = _is_fragment()
        notice = "" if is_fragment else session().notice
        if notice:
            put(changed(session(), notice=""))
        theme = flask.request.cookies.get(_THEME, "auto")
        return {
            "checks_signatures": self._broker.node.keys is not None,
            "file": self._static_url,
            "identity": flask.g.visit.identity,
            "is_fragment": is_fragment,
            "menu": [] if is_fragment else self._menu(),
            "notice": notice,
            "session": session(),
            "terminal_command": terminal.command,
            "theme": theme if theme in THEMES else "auto",
        }

    def _menu(self) -> list[MenuPage]:
        """Return the pages that the visitor may open; none before the sign-in."""
        visit = flask.g.visit
        if self._broker.node.keys is not None and visit.identity.key_id is None:
            return []
        return [each for each in _MENU if not each.permission or visit.may(each.permission)]

    def _static_url(self, name: str) -> str:
        return flask.url_for("console.static", filename=name, v=self._versions[name])


def keep_theme(response: flask.Response, theme: str) -> flask.Response:
    """Store the theme in a cookie."""
    response.set_cookie(_THEME, theme, path=web.PAGES, samesite="Strict", max_age=_YEAR)
    return response


def signed_in(identity: Identity, now: float) -> Session:
    """Return a new session of a key."""
    return Session(
        key_id=identity.key_id or "",
        account=identity.account,
        region=identity.region,
        until=now + SECONDS,
    )


def _check_scope(identity: Identity) -> None:
    """Remember the account and region of the address for addresses without them.

    Raises errors.AccessDenied if the account is not that of the key.
    """
    requested = scope.requested()
    if requested is None:
        return
    if requested.account != identity.account:
        raise errors.AccessDenied(
            f"This page belongs to account {requested.account}, and your access key to account"
            f" {identity.account}. Sign out, and sign in with a key of account {requested.account}."
        )
    is_page = flask.request.method in _SAFE and not _is_fragment()
    if is_page and requested != (session().account, session().region):
        put(changed(session(), account=requested.account, region=requested.region))


def _not_found(rest: str) -> ResponseReturnValue:
    del rest
    return flask.render_template("not_found.html"), 404


def _unscoped(rest: str) -> ResponseReturnValue:
    """Redirect from an address without account and region to that of the session."""
    address = scope.scoped_address(rest) if flask.request.method in _SAFE else None
    return _not_found(rest) if address is None else flask.redirect(address, 302)


def _is_fragment() -> bool:
    return flask.request.headers.get("HX-Request") == "true"


def _configure(environment: Environment) -> None:
    environment.trim_blocks = environment.lstrip_blocks = True


def _is_own_form(request: Request) -> bool:
    """Return whether a form was sent by a page of this console."""
    token = flask.request.headers.get("X-CSRF-Token") or flask.request.form.get("csrf") or ""
    is_same_site = request.headers.get("sec-fetch-site") in (None, "none", "same-origin")
    return is_same_site and hmac.compare_digest(token.encode(), session().csrf.encode())


def changed(session: Session, **changes: Any) -> Session:
    """Return a copy of a session with some values replaced."""
    return msgspec.structs.replace(session, **changes)


def _redirect_to_sign_in() -> ResponseReturnValue:
    is_page = flask.request.method in _SAFE
    target = flask.url_for(
        "console.sign_in", next=flask.request.full_path.rstrip("?") if is_page else None
    )
    if _is_fragment():
        return flask.Response(status=401, headers={"HX-Redirect": flask.url_for("console.sign_in")})
    return flask.redirect(target, 303)


def _error_page(error: errors.SqsError) -> ResponseReturnValue:
    return flask.render_template("error.html", error=error), error.status


def _too_long(error: Exception) -> ResponseReturnValue:
    del error
    web.discard_body()
    return _error_page(errors.FormTooLong())
