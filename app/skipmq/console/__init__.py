"""The web console of a node."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import flask

    from skipmq.server.answer import Broker


def mount(app: "flask.Flask", broker: "Broker", loop: asyncio.AbstractEventLoop) -> None:
    """Add the console to the application of a broker, under /console/."""
    # Imported late, because the supervisor process refers to this function and serves no pages.
    from skipmq.console import pages, site  # noqa: PLC0415

    app.register_blueprint(site.blueprint(broker, loop, pages.ALL))
