"""The application for a threaded WSGI server: `gunicorn 'skipmq.wsgi:application()'`."""

# ruff: noqa: E402 - without the server one sentence says what to install.

from skipmq import extras

extras.require_server("skipmq.wsgi")

import flask

from skipmq import console
from skipmq.server import wsgi


def application() -> flask.Flask:
    """Return the application of a node with a janitor and the console.

    Raises config.ConfigError, schema.SchemaError, errors.ServiceUnavailable.
    """
    return wsgi.application(console.mount)
