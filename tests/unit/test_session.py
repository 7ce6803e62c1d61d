import pytest

from skipmq.console.session import SECONDS, Seal, Session, cookie_name

RECEIPT_KEY = b"r" * 32
OLD, NEW = b"o" * 32, b"n" * 32
SESSION = Session(key_id="AKIA0000000000000000")


def test_nothing_is_sealed_without_a_key() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        Seal(b"", [NEW])


def test_session_that_another_receipt_key_has_sealed_is_none() -> None:
    forged = Seal(b"forged", [NEW]).close(SESSION)

    assert Seal(RECEIPT_KEY, [NEW]).open(forged) is None
    assert Seal(b"forged", [NEW]).open(forged) == SESSION


@pytest.mark.parametrize("forger", [[], [OLD]])
def test_receipt_key_alone_opens_no_session(forger: list[bytes]) -> None:
    forged = Seal(RECEIPT_KEY, forger).close(SESSION)

    assert Seal(RECEIPT_KEY, [NEW]).open(forged) is None


def test_first_master_key_seals_and_each_opens() -> None:
    old, both, new = (Seal(RECEIPT_KEY, keys) for keys in ([OLD], [NEW, OLD], [NEW]))

    assert both.open(old.close(SESSION)) == SESSION
    assert new.open(both.close(SESSION)) == SESSION
    assert old.open(both.close(SESSION)) is None


def test_session_that_would_last_longer_than_any_is_over() -> None:
    now = 1_700_000_000.0

    lasting = [
        Session(until=now + seconds).is_valid(now)
        for seconds in (-1, 0, 1, SECONDS, 2 * SECONDS, float("inf"), float("nan"))
    ]

    assert lasting == [False, False, True, True, False, False, False]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://localhost:9324", "skipmq_console_9324"),
        ("https://queues.example.com", "skipmq_console_https"),
        ("http://[::1]", "skipmq_console_http"),
        ("http://localhost:99999", "skipmq_console_99999"),
    ],
)
def test_cookie_is_named_after_the_port(url: str, name: str) -> None:
    assert cookie_name(url) == name
