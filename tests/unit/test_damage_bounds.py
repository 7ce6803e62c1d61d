from skipmq.broker.messages.watermark import DAMAGE_SECONDS, Scan

SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026.


def test_claims_pass_over_damage_for_a_minute_and_then_try_again() -> None:
    time = [0.0]
    scan = Scan(lambda: time[0])
    scan.pass_over(START, None)

    assert (scan.bounds().low, scan.bounds().received_low) == (START, None)
    time[0] = DAMAGE_SECONDS - 1
    # More damage, further on: the minute is that of the first.
    scan.pass_over(START + SECOND, START)
    assert (scan.bounds().low, scan.bounds().received_low) == (START + SECOND, START)

    time[0] = DAMAGE_SECONDS
    assert scan.bounds().low is None


def test_low_watermark_beyond_the_damage_is_kept() -> None:
    scan = Scan(lambda: 0.0)
    scan.watermark.low = START + SECOND
    scan.pass_over(START, START)

    assert (scan.bounds().low, scan.bounds().received_low) == (START + SECOND, START)
