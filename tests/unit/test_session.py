import pytest

from skipmq.console.session import Seal, Session


def test_nothing_is_sealed_without_a_key() -> None:
    with pytest.raises(ValueError, match="without a key"):
        Seal(b"")


def test_session_that_another_key_has_sealed_is_none() -> None:
    forged = Seal(b"forged").close(Session(key_id="AKIA0000000000000000"))

    assert Seal(b"another").open(forged) is None
    assert Seal(b"forged").open(forged) is not None
