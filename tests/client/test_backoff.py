from datetime import timedelta
from typing import Any

import pytest

from skipmq import Retry
from skipmq.client import ClientError


def test_delays_double_up_to_the_most_and_differ() -> None:
    backoff = Retry.backoff(2, most=300)
    longest = {1: 2, 2: 4, 3: 8, 8: 256, 9: 300, 10_000: 300}

    for receives, most in longest.items():
        delays = {backoff.seconds(receives) for _ in range(500)}
        assert 0.9 * most <= max(delays) <= most
        assert most / 2 <= min(delays)
    assert len({backoff.seconds(9) for _ in range(500)}) > 50


def test_no_delay_is_none() -> None:
    assert Retry.backoff(0, most=0).seconds(5) == 0


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), True, "5", timedelta(seconds=5), None, [5]], ids=str
)
def test_what_is_no_number_of_seconds_is_refused(value: Any) -> None:
    with pytest.raises(ClientError, match=r"first="):
        Retry.backoff(value, most=5)
    with pytest.raises(ClientError, match=r"most="):
        Retry.backoff(5, most=value)
    if value is not None:
        with pytest.raises(ClientError, match=r"after="):
            Retry("later", after=value)


def test_delay_that_has_passed_is_none() -> None:
    assert Retry("now", after=-3.5).after == -3.5
    with pytest.raises(ClientError, match="first=-1 is no number of seconds"):
        Retry.backoff(-1, most=5)
