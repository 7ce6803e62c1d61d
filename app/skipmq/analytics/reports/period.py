"""The period of a report, its steps, and days."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from skipmq.protocol import limits

# Step lengths in seconds.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
# Maximum number of steps of a line, and of bars and percentiles.
_MAXIMUM_STEPS, _MAXIMUM_BARS = 200, 60
HOUR = timedelta(hours=1)
# The maximum retention, twice: that of a dead-letter queue may begin when a message comes to it.
LONGEST_LIFE = 2 * timedelta(seconds=limits.MAXIMUM_RETENTION)


@dataclass(frozen=True, slots=True)
class Period:
    """A time range without its end; both ends have a time zone."""

    since: datetime
    until: datetime

    @property
    def before(self) -> "Period":
        """Return the previous period of equal length."""
        return Period(self.since - (self.until - self.since), self.since)

    @property
    def step(self) -> timedelta:
        """Return the step length of lines, of which there are at most 200."""
        return self._step(_MAXIMUM_STEPS)

    @property
    def bar(self) -> timedelta:
        """Return the step length of bars and percentiles, of which there are at most 60."""
        return self._step(_MAXIMUM_BARS)

    def _step(self, maximum: int) -> timedelta:
        shortest = (self.until - self.since).total_seconds() / maximum
        return timedelta(seconds=next((s for s in _STEPS if s >= shortest), _STEPS[-1]))

    @property
    def steps(self) -> int:
        """Return the number of steps, the last of which may exceed the period."""
        return max(-((self.since - self.until) // self.step), 1)


def settled_before(until: datetime | None, as_of: datetime | None) -> datetime | None:
    """Return the earlier end: that of a period, and that of the messages there were at a time."""
    ends = [until, as_of and as_of + LONGEST_LIFE]
    return min((end for end in ends if end is not None), default=None)


def day_bounds(day: date) -> tuple[datetime, datetime]:
    """Return the beginnings of a day (UTC) and of the next one."""
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return begin, begin + timedelta(days=1)
