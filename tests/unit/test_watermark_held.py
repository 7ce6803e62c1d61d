"""The low watermark while transactions stay open."""

from skipmq.broker.messages.watermark import HELD_AFTER, MARGIN, MAX_HELD, Probe, Watermark

SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026.
HELD_SECONDS = HELD_AFTER / SECOND


def learned(*probes: Probe) -> Watermark:
    watermark = Watermark()
    for probe in probes:
        watermark.update(probe)
    return watermark


def probe(second: float, running: int | list[int], xid: int, first: int | None = None) -> Probe:
    """Return a probe of a time after the start, in seconds."""
    running = running if isinstance(running, list) else [running]
    return Probe(START + round(second * SECOND), running, xid, first)


def holding(*xids: int, at: float = 0) -> Watermark:
    """Return a watermark of before a time, from when on some transactions have been held."""
    return learned(
        probe(at - 2, 1, 2),
        probe(at - 1, 3, 4),
        probe(at, [*xids], 1000),
        probe(at + HELD_SECONDS, [*xids], 1002),
        probe(at + 2 * HELD_SECONDS, [*xids], 1004),
    )


def test_transaction_that_stays_open_is_held_and_the_proof_goes_on_without_it() -> None:
    watermark = holding(50)

    assert watermark.low == START + round(HELD_SECONDS * SECOND) - MARGIN
    assert watermark.held == ([50], [START - SECOND - MARGIN])


def test_transaction_that_is_open_for_less_is_not_held() -> None:
    watermark = learned(probe(0, 10, 12), probe(HELD_SECONDS - 0.01, 10, 14))

    assert watermark.low is None
    assert watermark.held == (None, None)


def test_transaction_open_before_anything_was_proved_is_held_from_the_beginning() -> None:
    watermark = learned(probe(0, 10, 12), probe(HELD_SECONDS, 10, 14))

    assert watermark.low == START - MARGIN
    assert watermark.held == ([10], [None])


def test_held_transaction_that_ended_is_forgotten() -> None:
    watermark = holding(50, 60)
    watermark.update(probe(3, 60, 1006))

    assert watermark.held == ([60], [START - SECOND - MARGIN])


def test_message_of_a_held_transaction_that_ended_lowers_the_watermark() -> None:
    watermark = holding(50)
    watermark.update(probe(3, 1005, 1006, first=START))

    assert watermark.low == START
    assert watermark.held == (None, None)


def test_transaction_that_is_held_later_keeps_a_later_place() -> None:
    watermark = holding(50)
    low = watermark.low
    watermark.update(probe(3, [50, 1003], 1006))

    assert low == START + SECOND - MARGIN
    assert watermark.held == ([50, 1003], [START - SECOND - MARGIN, low])


def test_more_transactions_than_can_be_held_hold_the_watermark_back() -> None:
    watermark = holding(*range(10, 11 + MAX_HELD))

    assert watermark.low == START - SECOND - MARGIN
    assert watermark.held == (None, None)
