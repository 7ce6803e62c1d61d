"""A base for the cases of unittest, and of what is built on it."""

import atexit
import unittest
from functools import cache

from skipmq.testing.account import Account
from skipmq.testing.server import Server


class TestCase(unittest.TestCase):
    """A case whose tests have an account each, `self.skipmq`, on a server of all cases.

    Clients that the tested code makes in a test find the account by themselves.
    With another base: `class OrdersTest(skipmq.testing.TestCase, django.test.TestCase)`.
    """

    skipmq: Account

    def setUp(self) -> None:
        """Give the test an account, and the variables with which clients find it."""
        super().setUp()
        self.skipmq = _server().new_account()
        self.addCleanup(self.skipmq.clear)
        self.enterContext(self.skipmq.environment())


@cache
def _server() -> Server:
    server = Server().start()
    atexit.register(server.stop)
    return server
