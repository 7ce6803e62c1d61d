"""The application for a WSGI server: `gunicorn 'skipmq.wsgi:application()'`."""

import flask

from skipmq import console
from skipmq.server import web


def application() -> flask.Flask:
    """Return the application of a node with its janitor and the console.

    Raises config.ConfigError, schema.SchemaError, errors.ServiceUnavailable.
    """
    return web.application(console.mount)
