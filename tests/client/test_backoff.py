from skipmq import Retry


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
