import json
from typing import Any

import psycopg
import pytest

from support.postgres import Connection
from support.sql import number

CHECK = "select skipmq.check_filter(%s)::text"


@pytest.mark.parametrize(
    "path",
    [
        "order",
        '$.a ? (@ like_regex "(a+)+")',
        "$.**.a.**.b",
        "$.a[*] ? ($.b[*] == @)",
        "$.a[*] ? (@[*] == @[*])",
        "$.a ? (@.b ? (@.c == 1) == 1)",
        "$.a == $.b",
        "$.a.datetime()",
        "$.a starts with 5",
        "$.a; drop table x",
        "$.a[1 to 3]",
        "$" + ".a" * 200,
        "",
    ],
)  # fmt: skip
def test_path_beyond_linear_time_is_refused(owner: Connection, path: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        number(owner, CHECK, json.dumps({"path": path}))

    assert caught.value.sqlstate == "SQ008"


@pytest.mark.parametrize("wrong", [{"receives": 0}, {"failure": "x" * 257}], ids=str)
def test_member_out_of_bounds_is_refused(owner: Connection, wrong: dict[str, Any]) -> None:
    with pytest.raises(psycopg.Error) as caught:
        number(owner, CHECK, json.dumps(wrong))

    assert caught.value.sqlstate == "SQ008"


def test_no_filter_is_valid(owner: Connection) -> None:
    number(owner, CHECK, None)
    number(owner, CHECK, '{"receives": 1, "failure": "", "until": "2026-01-01"}')
