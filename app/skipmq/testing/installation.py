"""The schema in a test database of yours."""

import re

from skipmq import extras
from skipmq.testing.errors import TestingError

# As SQLAlchemy writes a URL, with the driver.
_DRIVER = re.compile(r"^(postgres(?:ql)?)\+[a-z0-9]+:")


def install(url: str) -> None:
    """Bring the schema of SkipMQ into a database, as `skipmq migrate` does; once is enough.

    Raises TestingError when the database is unavailable, or its user has no right to, and
    MissingExtraError when the server is not installed.
    """
    extras.require_server("skipmq.testing.install", "testing")
    from skipmq.database import schema, session  # noqa: PLC0415 - psycopg, only where used.

    try:
        schema.migrate(_DRIVER.sub(r"\1:", url))
    except schema.SchemaError as error:
        raise TestingError(f"the schema cannot be installed: {error}") from error
    except session.Error as error:
        raise TestingError(session.explain(error, "the URL given to install")) from error
