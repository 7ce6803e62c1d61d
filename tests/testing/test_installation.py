"""The schema in a test database of one's own."""

import re

import pytest

from skipmq.testing import TestingError, install
from support.postgres import Databases
from support.processes import ask


def test_schema_is_installed_into_a_database_of_yours(embedded_databases: Databases) -> None:
    url = embedded_databases.empty()

    install(re.sub("^postgresql:", "postgresql+psycopg:", url))
    install(url)

    assert ask(url, "select skipmq.create_queue('orders') is not null") is True
    ask(url, "select skipmq.send_message('orders', 'x')")
    embedded_databases.drop(url)


def test_installation_that_cannot_be_says_why(embedded_databases: Databases) -> None:
    url = embedded_databases.empty()
    ask(url, "create role visitor login")

    with pytest.raises(TestingError, match="the schema cannot be installed: nothing was migrated"):
        install(url.replace("postgres@", "visitor@"))
    with pytest.raises(TestingError, match=r"cannot be reached.*the URL given to install"):
        install("postgresql://localhost:1/test")
    embedded_databases.drop(url)
    ask(embedded_databases.server.url, "drop role visitor")
