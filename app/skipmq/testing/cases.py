"""A base for the cases of unittest, and of what is built on it."""

import atexit
import unittest
from functools import cache
from typing import Any

from skipmq.testing.account import Account
from skipmq.testing.server import Server

# Whose methods of a class make no client.
_STOCK = {"unittest", "django"}


class TestCase(unittest.TestCase):
    """A case whose tests have an account each, `self.skipmq`, on a server of all cases.

    Clients that the tested code makes in a test find the account by themselves, in `setUp` too.
    Where a class has a `setUpClass`, its tests have the account of the class, each as `setUpClass`
    left it.
    With another base: `class OrdersTest(skipmq.testing.TestCase, django.test.TestCase)`.
    """

    skipmq: Account

    def __init_subclass__(cls, **more: Any) -> None:
        """Have an account before a `setUpClass` begins, which seldom calls that of its base."""
        super().__init_subclass__(**more)
        if not any(_is_own(cls, name) for name in ("setUpClass", "setUpTestData")):
            return
        set_up = vars(_owner(cls, "setUpClass"))["setUpClass"].__func__

        def set_up_class(case: type[TestCase]) -> None:
            if "skipmq" not in vars(case):
                case.skipmq = _server().new_account()
                case.addClassCleanup(delattr, case, "skipmq")
                case.addClassCleanup(case.skipmq.clear)
                case.enterClassContext(case.skipmq.environment())
            set_up(case)

        cls.setUpClass = classmethod(set_up_class)  # type: ignore[assignment]

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test with an account: outside `setUp`, which seldom calls that of its base."""
        if "skipmq" in vars(type(self)):
            with self.skipmq.snapshot():
                return self._run(result)
        self.skipmq = _server().new_account()
        try:
            with self.skipmq.environment():
                return self._run(result)
        finally:
            self.skipmq.clear()

    def _run(self, result: unittest.TestResult | None) -> unittest.TestResult | None:
        self.addCleanup(self.skipmq.check_faults)  # After those of the test.
        return super().run(result)


def _owner(cls: type, name: str) -> type:
    return next((each for each in cls.__mro__ if name in vars(each)), unittest.TestCase)


def _is_own(cls: type, name: str) -> bool:
    """Return whether a method of a class is a project's, and not of a case that was prepared."""
    owner = _owner(cls, name)
    is_stock = owner.__module__.partition(".")[0] in _STOCK
    return not is_stock and (owner is cls or not issubclass(owner, TestCase))


@cache
def _server() -> Server:
    server = Server().start()
    atexit.register(server.stop)
    return server
