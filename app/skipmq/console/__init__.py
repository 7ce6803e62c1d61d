"""The web console of a node."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import flask

    from skipmq.protocol.call import Request
    from skipmq.server.answer import Broker


class _Console:
    """The console as a server mounts it.

    Its modules are imported late, because the supervisor process refers to it and serves no pages.
    """

    def __call__(
        self, app: "flask.Flask", broker: "Broker", loop: asyncio.AbstractEventLoop
    ) -> None:
        """Add the console to the application of a broker, under /console/."""
        from skipmq.console import pages, site  # noqa: PLC0415

        app.register_blueprint(site.blueprint(broker, loop, pages.ALL))

    def has_session(self, broker: "Broker", request: "Request") -> bool:
        """Return whether a request has the cookie of a session that has not expired."""
        from skipmq.console.session import session_of  # noqa: PLC0415

        node = broker.node
        session = session_of(request, node.receipt_keys.newest, node.settings.master_keys)
        if session is None or node.keys is None:
            return session is not None
        return session.key_id != "" and session.is_valid(node.keys.now())


mount = _Console()
