import pytest

from skipmq.protocol import errors
from skipmq.server import admission
from skipmq.server.admission import Rate


class Clock:
    """Time that only a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(admission, "monotonic", clock)
    return clock


def taken(rate: Rate, name: str = "a", tries: int = 100) -> int:
    """Return how many of so many requests are taken."""
    done = 0
    for _ in range(tries):
        try:
            rate.take(name)
        except errors.ThrottlingException:
            continue
        done += 1
    return done


def test_a_seconds_worth_comes_at_once_and_then_as_time_passes(clock: Clock) -> None:
    rate = Rate(10)

    assert taken(rate) == 10
    clock.now += 0.5
    assert taken(rate) == 5
    clock.now += 100
    assert taken(rate) == 10


def test_less_than_one_a_second(clock: Clock) -> None:
    rate = Rate(0.5)

    assert taken(rate) == 1
    clock.now += 1.5
    assert taken(rate) == 0
    clock.now += 0.5
    assert taken(rate) == 1


def test_burst_is_more_than_a_second_holds(clock: Clock) -> None:
    rate = Rate(0.5, 3)

    assert taken(rate) == 3
    clock.now += 2
    assert taken(rate) == 1


def test_each_has_its_own(clock: Clock) -> None:
    del clock
    rate = Rate(3)

    assert [taken(rate, name) for name in ("a", "b", "a")] == [3, 3, 0]


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_BUCKETS", 100)
    rate = Rate(2)

    for number in range(1000):
        rate.take(str(number))
        assert len(rate) <= 100
    clock.now += 10
    rate.take("one more")
    assert len(rate) <= 100
