import psycopg
import pytest

from support.postgres import Connection
from support.sql import number

CHECK = "select skipmq.check_message(%s, 100, 900, %s, %s::bigint, %s::int, %s, %s, %s)::text"
GOOD = {"fifo": False, "body": "x", "bytes": None, "delay": None, "group": None, "id": None}
FIFO = GOOD | {"fifo": True, "group": "g", "id": "id"}
LONG = "x" * 128


def check(connection: Connection, **given: object) -> None:
    wanted = GOOD | {"trace": None} | given
    number(connection, CHECK, *wanted.values())


@pytest.mark.parametrize(
    "given",
    [
        GOOD,
        FIFO,
        GOOD | {"body": "\t\n\r \x7f\ud7ff\ue000\ufffd\U00010000\U0010ffff"},
        GOOD | {"body": "x" * 60, "bytes": 40},
        GOOD | {"delay": 0},
        GOOD | {"delay": 900},
        GOOD | {"group": LONG},
        FIFO | {"group": "!~", "id": LONG},
        GOOD | {"trace": "Root=1"},
    ],
)
def test_what_sqs_takes_is_accepted(owner: Connection, given: dict[str, object]) -> None:
    check(owner, **given)


@pytest.mark.parametrize(
    ("given", "sqlstate", "text"),
    [
        (GOOD | {"body": ""}, "SQ011", "MessageBody"),
        (GOOD | {"trace": "x" * 2_049}, "SQ008", "at most 2048"),
        (GOOD | {"body": None}, "SQ011", "MessageBody"),
        (GOOD | {"body": "a\x01"}, "SQ009", "Invalid characters"),
        (GOOD | {"body": "\uffff"}, "SQ009", "Invalid characters"),
        (GOOD | {"body": "x" * 101}, "SQ008", "shorter than 100 bytes"),
        (GOOD | {"body": "ß" * 51}, "SQ008", "shorter than 100 bytes"),
        (GOOD | {"body": "x" * 60, "bytes": 41}, "SQ008", "shorter than 100 bytes"),
        (GOOD | {"delay": -1}, "SQ008", "Value -1 for parameter DelaySeconds"),
        (GOOD | {"delay": 901}, "SQ008", "Value 901 for parameter DelaySeconds"),
        (GOOD | {"group": ""}, "SQ008", "parameter MessageGroupId is invalid"),
        (GOOD | {"group": "a b"}, "SQ008", "Value a b for parameter MessageGroupId"),
        (GOOD | {"group": LONG + "x"}, "SQ008", "parameter MessageGroupId is invalid"),
        (GOOD | {"trace": ""}, "SQ008", "AWSTraceHeader"),
        (GOOD | {"trace": "\x02"}, "SQ008", "Invalid characters"),
        (FIFO | {"id": "ß"}, "SQ008", "parameter MessageDeduplicationId is invalid"),
        (FIFO | {"id": None}, "SQ008", "ContentBasedDeduplication"),
        (FIFO | {"group": None}, "SQ011", "MessageGroupId"),
    ],
)
def test_what_sqs_refuses_is_refused(
    owner: Connection, given: dict[str, object], sqlstate: str, text: str
) -> None:
    with pytest.raises(psycopg.Error, match=text) as caught:
        check(owner, **given)

    assert caught.value.sqlstate == sqlstate
