"""The error of a test."""


class TestingError(Exception):
    """Something that a test asked for cannot be; the message says what to do."""

    # Not a class of tests, to pytest.
    __test__ = False
