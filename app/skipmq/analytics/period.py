"""Times: the one that a report is about, and days."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

# Lengths of a step in seconds that people can read off an axis.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
# Steps of a line, and of what is drawn as bars or has percentiles.
_MOST_STEPS, _MOST_BARS = 200, 60
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Period:
    """A time range, the end not in it; both ends have a time zone."""

    since: datetime
    until: datetime

    @property
    def before(self) -> "Period":
        """Return the time of equal length that ends where this one begins."""
        return Period(self.since - (self.until - self.since), self.since)

    @property
    def step(self) -> timedelta:
        """Return the length of its steps: such that there are at most 200."""
        return self._in(_MOST_STEPS)

    @property
    def bar(self) -> timedelta:
        """Return the length of steps that have percentiles: such that there are at most 60."""
        return self._in(_MOST_BARS)

    def _in(self, most: int) -> timedelta:
        wanted = (self.until - self.since).total_seconds() / most
        return timedelta(seconds=next((s for s in _STEPS if s >= wanted), _STEPS[-1]))

    @property
    def steps(self) -> int:
        """Return the number of its steps, of which the last may go beyond its end."""
        return max(-((self.since - self.until) // self.step), 1)


def day_bounds(day: date) -> tuple[datetime, datetime]:
    """Return the beginning of a day (UTC) and of the next one."""
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return begin, begin + timedelta(days=1)
