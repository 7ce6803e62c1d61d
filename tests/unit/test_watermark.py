import pytest

from skipmq.broker.messages.watermark import (
    FAILED_PROBE_SECONDS,
    FULL_PROBE_SECONDS,
    MARGIN,
    PROBE_AFTER_CLAIMED,
    SWEEP_SECONDS,
    SWEEP_SHARE,
    Probe,
    Scan,
    Scans,
    Watermark,
)

SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026.
ENOUGH = PROBE_AFTER_CLAIMED


def learned(*probes: Probe) -> Watermark:
    watermark = Watermark()
    for probe in probes:
        watermark.update(probe)
    return watermark


def probe(second: float, oldest: int, xid: int, first: int | None = None) -> Probe:
    """Return a probe of a time after the start, in seconds, while one other transaction runs."""
    return Probe(START + round(second * SECOND), [oldest], xid, first)


def test_one_probe_proves_nothing() -> None:
    watermark = learned(probe(0, 10, 12))

    assert watermark.low is None
    assert watermark.is_pending


def test_probe_when_all_are_done_that_ran_at_another_proves_the_time_of_that() -> None:
    assert learned(probe(0, 10, 12), probe(1, 13, 15)).low == START - MARGIN


@pytest.mark.parametrize("oldest", [10, 12])
def test_probe_while_one_runs_that_ran_at_another_proves_nothing(oldest: int) -> None:
    later = [probe(n / 4, oldest, 12 + n) for n in range(1, 4)]

    assert learned(probe(0, 10, 12), *later).low is None


def test_each_proof_is_followed_by_another() -> None:
    probes = [probe(0, 10, 12), probe(0.9, 12, 14), probe(2, 13, 16), probe(2.9, 16, 18)]

    assert [learned(*probes[:n]).low for n in range(1, 5)] == [
        None,
        None,
        START - MARGIN,
        START - MARGIN,
    ]
    # Those who ran at the probe that proved something are done.
    assert learned(*probes, probe(4, 17, 20)).low == START + 2 * SECOND - MARGIN


def test_proof_reaches_no_further_than_the_first_message() -> None:
    first = START - SECOND

    assert learned(probe(0, 10, 12), probe(1, 13, 15, first)).low == first


def test_proof_holds_on_when_the_first_message_is_gone() -> None:
    probes = [
        probe(0, 10, 12),
        probe(1, 13, 15, START - SECOND),
        probe(1.9, 15, 17, START + SECOND),
    ]

    assert learned(*probes).low == START - MARGIN


class Database:
    """What a probe of the database returns, by a clock and a stopwatch that the test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.put_back = 0
        self.xid = 1000
        # The transactions that run.
        self.running: list[int] = []
        self.first: int | None = None
        self.starts: list[int | None] = []
        self.scan = Scan(self.stopwatch)
        self.generation = 1

    def stopwatch(self) -> float:
        return self.seconds

    @property
    def now(self) -> int:
        return START + round(self.seconds * SECOND) - self.put_back

    @property
    def low(self) -> int | None:
        return self.scan.watermark.low

    def answer(self, start: int | None) -> Probe:
        self.starts.append(start)
        self.xid += 1
        return Probe(self.now, self.running, self.xid, self.first)

    def probe(self) -> None:
        """Probe as a node does, if that is due."""
        pending = self.scan.begin_probe(self.generation)
        if pending is not None:
            self.scan.end_probe(pending, self.answer(pending.start))

    def claim(self, count: int = ENOUGH, reached: int | None = None) -> int | None:
        """Claim as a node does; return the scan start that it was given."""
        self.probe()
        bounds = self.scan.bounds()
        self.scan.claimed(bounds, count, self.now, reached or self.now)
        return bounds.start

    def wait(self, seconds: float = SWEEP_SECONDS) -> None:
        self.seconds += seconds


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def raised(database: Database) -> Database:
    """Give one whose watermark has been raised by two probes."""
    database.claim()
    for _ in range(2):
        database.wait()
        database.claim()
    return database


def test_queue_that_gave_little_is_not_probed(database: Database) -> None:
    for _ in range(10):
        database.wait()
        database.claim(count=1)

    assert database.starts == []


def test_queue_whose_claim_took_long_is_probed(database: Database) -> None:
    database.claim(count=1)
    bounds = database.scan.bounds()
    database.wait(1)
    database.scan.claimed(bounds, 1, database.now, database.now)
    database.wait(SWEEP_SHARE)
    database.claim(count=1)

    assert database.starts == [None]


def test_watermark_after_one_probe_is_not_known(database: Database) -> None:
    database.claim()
    database.wait()
    database.claim()

    assert len(database.starts) == 1
    assert database.low is None


def test_watermark_after_two_probes_is_the_time_of_the_first(raised: Database) -> None:
    assert raised.low == raised.now - int(SWEEP_SECONDS * SECOND) - MARGIN


def test_watermark_while_an_older_transaction_runs_stays(raised: Database) -> None:
    before, raised.running = raised.low, [1000]
    for _ in range(3):
        raised.wait()
        raised.claim()

    assert raised.low == before


def test_claims_and_probes_name_the_transactions_that_are_held(raised: Database) -> None:
    before, raised.running = raised.low, [1000]
    for _ in range(8):
        raised.wait()
        raised.claim()
    bounds = raised.scan.bounds()

    assert bounds.held == ([1000], [before])
    assert before is not None
    assert bounds.low is not None
    assert bounds.low > before
    raised.wait()
    pending = raised.scan.begin_probe(raised.generation)
    assert pending is not None
    assert pending.held == bounds.held


def test_probe_from_the_beginning_names_none(raised: Database) -> None:
    raised.running = [1000]
    for _ in range(8):
        raised.wait()
        raised.claim()
    raised.wait(FULL_PROBE_SECONDS)
    pending = raised.scan.begin_probe(raised.generation)

    assert pending is not None
    assert (pending.start, pending.held) == (None, (None, None))


def test_watermark_is_never_above_the_first_message(raised: Database) -> None:
    raised.first = START + round(100.05 * SECOND)
    raised.wait()
    raised.claim()
    raised.wait()
    raised.claim()

    assert raised.low == raised.first


def test_queue_that_gives_little_is_probed_once_in_a_while(raised: Database) -> None:
    raised.wait()
    raised.claim()
    probes = len(raised.starts)
    for _ in range(10):
        raised.wait()
        raised.claim(count=1)

    # What was claimed before was still enough for one.
    assert len(raised.starts) == probes + 1

    raised.wait(FULL_PROBE_SECONDS)
    raised.claim(count=0)

    assert raised.starts[probes + 1 :] == [None]


def test_probe_that_fails_leaves_the_claims_alone(raised: Database) -> None:
    before, failed = raised.low, 0
    for _ in range(20):
        raised.wait()
        pending = raised.scan.begin_probe(raised.generation)
        if pending is not None:
            failed += 1
            raised.scan.end_probe(pending, None)
        raised.scan.claimed(raised.scan.bounds(), ENOUGH, raised.now, raised.now)

    assert raised.low == before
    assert failed == 1
    raised.wait(FAILED_PROBE_SECONDS)
    probes = len(raised.starts)
    raised.claim()
    assert len(raised.starts) == probes + 1


def test_queue_that_is_being_probed_is_not_probed_again(raised: Database) -> None:
    raised.wait()
    pending = raised.scan.begin_probe(raised.generation)
    assert pending is not None
    for _ in range(3):
        raised.wait()
        raised.claim()

    assert raised.scan.begin_probe(raised.generation) is None
    raised.scan.end_probe(pending, raised.answer(pending.start))
    raised.claim()
    raised.wait()
    assert raised.scan.begin_probe(raised.generation) is not None


def test_watermark_on_new_connections_is_forgotten(raised: Database) -> None:
    raised.generation += 1
    raised.probe()

    assert raised.low is None
    assert raised.scan.bounds().start is None


def test_probe_over_connections_of_before_proves_nothing(raised: Database) -> None:
    raised.wait()
    pending = raised.scan.begin_probe(raised.generation)
    assert pending is not None
    raised.generation += 1
    raised.claim()

    for _ in range(2):
        raised.scan.end_probe(pending, raised.answer(pending.start))

    assert raised.low is None
    assert not raised.scan.watermark.is_pending


def test_watermark_when_the_clock_was_put_back_is_forgotten(raised: Database) -> None:
    raised.put_back = SECOND
    raised.claim()

    assert raised.low is None


def test_watermark_when_a_probe_shows_that_the_clock_was_put_back_is_forgotten(
    raised: Database,
) -> None:
    raised.wait()
    raised.put_back = SECOND
    raised.probe()

    assert raised.low is None
    assert not raised.scan.watermark.is_pending


def test_watermark_when_a_claim_took_long_is_kept(raised: Database) -> None:
    raised.wait()
    bounds = raised.scan.bounds()
    received_at = raised.now
    raised.wait(5)  # Its answer comes late, and others came before.
    raised.claim()
    raised.scan.claimed(bounds, 1, received_at, received_at)

    assert raised.low is not None


def test_queue_is_probed_from_the_beginning_once_in_a_while(raised: Database) -> None:
    for _ in range(4):
        raised.wait(FULL_PROBE_SECONDS / 4)
        raised.claim()

    assert [start is None for start in raised.starts] == [True, True, False, False, False, True]


def test_claim_begins_where_the_last_one_ended(raised: Database) -> None:
    reached = raised.now
    raised.claim(reached=reached)

    assert raised.claim() == reached


def test_claim_begins_at_the_watermark_once_in_a_while(raised: Database) -> None:
    raised.wait()

    starts = [raised.claim() for _ in range(3)]

    assert [start is None for start in starts] == [True, False, False]


def test_claim_that_took_what_was_received_before_is_followed_by_one_from_the_watermark(
    raised: Database,
) -> None:
    raised.claim()
    raised.wait()
    bounds = raised.scan.bounds()
    raised.scan.claimed(bounds, 10, raised.now, None)

    assert raised.scan.bounds().start is None
    assert raised.scan.bounds().start is not None


def test_watermark_of_what_was_received_is_proved_with_its_own_first_message() -> None:
    received = START - 5 * SECOND
    watermark = learned(probe(0, 10, 12), probe(1, 13, 15)._replace(first_received_at=received))

    assert (watermark.low, watermark.received_low) == (START - MARGIN, received)


def test_claim_from_the_watermark_that_takes_long_is_made_more_rarely(raised: Database) -> None:
    raised.wait()
    bounds = raised.scan.bounds()
    raised.wait(2)
    raised.scan.claimed(bounds, 1, raised.now, raised.now)

    raised.wait(2 * SWEEP_SHARE - 3)
    assert raised.claim() is not None
    raised.wait(1)
    assert raised.claim() is None


def test_scans_of_a_queue_are_one() -> None:
    scans = Scans()

    assert scans.scan(1) is scans.scan(1)
    assert scans.scan(1) is not scans.scan(2)
