"""When schedules tick: cron, intervals and once, in zones that change their hour."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from skipmq.broker.schedules import ScheduleError, Times

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def after(expression: str, zone: str, moment: str, count: int = 3) -> list[str]:
    begin = datetime.fromisoformat(moment)
    times = Times(expression, zone)
    return [f"{each:%m-%d %H:%M:%S}" for each in islice(times.after(begin), count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 9-10 * * mon-fri", ["01-01 09:00:00", "01-01 09:20:00", "01-01 09:40:00"]),
        ("0 0 1 feb,MAR *", ["02-01 00:00:00", "03-01 00:00:00", "02-01 00:00:00"]),
        ("every 90 seconds", ["01-01 00:01:30", "01-01 00:03:00", "01-01 00:04:30"]),
        ("every hour", ["01-01 01:00:00", "01-01 02:00:00", "01-01 03:00:00"]),
        ("rate(1 day)", ["01-02 00:00:00", "01-03 00:00:00", "01-04 00:00:00"]),
        ("at 2026-07-01T12:30", ["07-01 12:30:00"]),
        ("at(2026-07-01T12:30:00+02:00)", ["07-01 10:30:00"]),
        ("at 2025-07-01T12:30", []),
    ],
)
def test_ticks_after_a_moment(expression: str, expected: list[str]) -> None:
    assert after(expression, "UTC", NEW_YEAR.isoformat()) == expected


@pytest.mark.parametrize(
    ("expression", "moment", "expected"),
    [
        # 02:30 does not exist on 29 March: it is the end of the missing hour.
        ("30 2 * * *", "2026-03-28T12:00Z", ["03-29 01:00:00", "03-30 00:30:00"]),
        ("at 2026-03-29T02:30", "2026-03-28T12:00Z", ["03-29 01:30:00"]),
        # It exists twice on 25 October: the first one counts.
        ("30 2 * * *", "2026-10-24T12:00Z", ["10-25 00:30:00", "10-26 01:30:00"]),
        ("at 2026-10-25T02:30", "2026-10-24T12:00Z", ["10-25 00:30:00"]),
        # Each hour of a day of 23, and of one of 25.
        ("0 * * * *", "2026-03-29T00:30Z", ["03-29 01:00:00", "03-29 02:00:00"]),
        ("0 * * * *", "2026-10-24T23:30Z", ["10-25 00:00:00", "10-25 01:00:00"]),
    ],
)
def test_changes_of_the_hour(expression: str, moment: str, expected: list[str]) -> None:
    assert after(expression, "Europe/Berlin", moment, 2) == expected


@pytest.mark.parametrize(("month", "count"), [(3, 800), (10, 1_700)])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/30 * * * *", "15 1-3 * * *"])
def test_ticks_before_a_moment_are_those_after_an_earlier_one(
    expression: str, zone: str, month: int, count: int
) -> None:
    times = Times(expression, zone)
    begin = datetime(2026, month, 1, tzinfo=UTC) + timedelta(days=20 if month == 3 else 0)

    forwards = [*islice(times.after(begin), count if "/" in expression else count // 48)]
    backwards = [*islice(times.before(forwards[-1]), len(forwards))]

    assert [*reversed(backwards)] == forwards
    assert all(one < other for one, other in pairwise(forwards))


@pytest.mark.parametrize(
    ("expression", "zone", "error"),
    [
        ("0 0 30 2 *", "UTC", "never fires: its day-of-month is impossible"),
        ("61 * * * *", "UTC", "never fires: its minute is impossible"),
        ("0 0 * * 8", "UTC", "never fires: its day-of-week is impossible"),
        ("* * * *", "UTC", "is no schedule: use the five fields of cron"),
        ("0 * * * * *", "UTC", "is no schedule"),
        ("every 0 minutes", "UTC", "is no schedule"),
        ("every 999999 weeks", "UTC", "more than a year"),
        ("at noon", "UTC", "names no time"),
        ("0 * * * *", "Mars/Olympus", "There is no time zone 'Mars/Olympus'"),
        ("0 * * * *", "../../etc/passwd", "There is no time zone"),
        ("0 * * * *", "", "There is no time zone"),
    ],
)
def test_expression_that_is_none_is_refused(expression: str, zone: str, error: str) -> None:
    with pytest.raises(ScheduleError, match=error):
        Times(expression, zone)
