import psycopg
import pytest

from support.postgres import Connection
from support.sql import number

CHECK = "select skipmq.check_receive(%s::int, %s::int)"


@pytest.mark.parametrize(("limit", "given"), [(1, 1), (10, 10), (None, 1)])
def test_limit_is_one_to_ten_or_one(owner: Connection, limit: int | None, given: int) -> None:
    assert number(owner, CHECK, limit, 43_200) == given


@pytest.mark.parametrize(
    ("limit", "timeout", "text"),
    [
        (0, None, "Value 0 for parameter MaxNumberOfMessages"),
        (11, 0, "Value 11 for parameter MaxNumberOfMessages"),
        (1, -1, "Value -1 for parameter VisibilityTimeout"),
    ],
)
def test_receive_out_of_range_is_refused(
    owner: Connection, limit: int, timeout: int | None, text: str
) -> None:
    with pytest.raises(psycopg.Error, match=text) as caught:
        number(owner, CHECK, limit, timeout)

    assert caught.value.sqlstate == "SQ008"
