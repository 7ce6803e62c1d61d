import psycopg
import pytest

from support.postgres import Connection

CHECK = "select skipmq.check_timeouts(%s::int[])"


def test_timeouts_of_up_to_twelve_hours_are_accepted(owner: Connection) -> None:
    owner.execute(CHECK, ([0, None, 43_200],))


@pytest.mark.parametrize("timeout", [-1, 43_201, 999_999_999])
def test_timeout_out_of_range_is_refused(owner: Connection, timeout: int) -> None:
    text = f"Value {timeout} for parameter VisibilityTimeout is invalid"

    with pytest.raises(psycopg.Error, match=text) as caught:
        owner.execute(CHECK, ([30, timeout],))

    assert caught.value.sqlstate == "SQ008"
