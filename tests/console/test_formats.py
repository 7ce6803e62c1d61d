"""How numbers, times and bodies are written for people."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmq.console import formats

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_pretty_body_is_that_of_python(value: object) -> None:
    body = value if isinstance(value, dict | list) else [value]

    assert formats.pretty(json.dumps(body)) == json.dumps(body, indent=2)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("plain", "plain"),
        ("12345678901234567890.10", "12345678901234567890.10"),
        ("{not json}", "{not json}"),
        ("[" * 100_000, "[" * 100_000),
        ('{"a":1.10,"a":1e400}', '{\n  "a": 1.10,\n  "a": 1e400\n}'),
        (r'["\"]\u00fc"]', '[\n  "\\"]\\u00fc"\n]'),
        (" [ ] ", "[]"),
    ],
    ids=lambda text: text[:20],
)
def test_body_that_is_laid_out_keeps_its_values(body: str, shown: str) -> None:
    assert formats.pretty(body) == shown


@pytest.mark.parametrize(
    "body",
    [
        "[" * 500 + "1" + "]" * 500,
        "[" * 60 + ",".join("1" * 60_000) + "]" * 60,
        "[" + '\\"' * 120_000,
    ],
)
def test_body_that_would_be_laid_out_many_times_longer_is_shown_as_it_is(body: str) -> None:
    assert formats.pretty(body) == body


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100.0 k"),
        (1_234_567, "1.2 M"),
        (2 * 10**9, "2.0 G"),
    ],
)
def test_count_is_short(value: int, shown: str) -> None:
    assert formats.count(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        ("345600", "4 days"),
        (1, "1 second"),
        (0, "0 seconds"),
        (90, "1 minute 30 seconds"),
        (90_061, "1 day 1 hour"),
    ],
)
def test_duration_has_two_units_at_most(seconds: int | str, shown: str) -> None:
    assert formats.duration(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(1, "1 byte"), (1023, "1023 bytes"), ("1048576", "1 MiB"), (1536, "1.5 KiB")],
)
def test_size_has_a_unit(number: int | str, shown: str) -> None:
    assert formats.size(number) == shown


def test_moment_is_utc() -> None:
    assert formats.moment(1_700_000_000) == "2023-11-14 22:13:20 UTC"
    assert formats.machine_moment("1700000000.5") == "2023-11-14T22:13:20.500+00:00"


def test_curves_end_with_the_minute_of_the_clock_that_is_given() -> None:
    clock = 1_000_000 * 60
    minutes = [
        {"Minute": clock, "Sent": 4, "Deleted": 0},
        {"Minute": clock - 59 * 60, "Sent": 0, "Deleted": 2},
        {"Minute": clock - 60 * 60, "Sent": 9, "Deleted": 9},
    ]

    found = formats.curves(minutes, clock + 59)

    assert found["peak"] == 4
    assert found["sent"].split()[-2:] == ["58,19.0", "59,1.0"]
    assert found["deleted"].split()[:2] == ["0,10.0", "1,19.0"]
