import secrets
import string

import pytest

from skipmq.auth.keys import Encrypted, MasterKeys, new_credentials

OLD, NEW = (secrets.token_bytes(32) for _ in range(2))
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG"


def test_secret_is_read_again_and_is_not_stored_in_clear() -> None:
    stored = MasterKeys([NEW]).encrypt(KEY, SECRET)

    assert MasterKeys([NEW]).decrypt(KEY, stored) == SECRET
    assert SECRET.encode() not in stored.secret
    assert MasterKeys([NEW]).encrypt(KEY, SECRET) != stored


def test_first_master_key_encrypts_and_all_decrypt() -> None:
    before, during = MasterKeys([OLD]), MasterKeys([NEW, OLD])
    old, new = before.encrypt(KEY, SECRET), during.encrypt(KEY, SECRET)

    assert during.decrypt(KEY, old) == during.decrypt(KEY, new) == SECRET
    assert new.master_key_id == during.current != old.master_key_id
    assert MasterKeys([NEW]).decrypt(KEY, old) is None
    assert before.decrypt(KEY, new) is None


def test_secret_of_another_access_key_is_not_read() -> None:
    stored = MasterKeys([NEW]).encrypt(KEY, SECRET)

    assert MasterKeys([NEW]).decrypt("AKIAOTHER", stored) is None


@pytest.mark.parametrize("place", range(12 + len(SECRET) + 16))
def test_changed_secret_is_not_read(place: int) -> None:
    master = MasterKeys([NEW])
    stored = master.encrypt(KEY, SECRET)
    changed = bytearray(stored.secret)
    changed[place] ^= 1

    assert master.decrypt(KEY, Encrypted(bytes(changed), stored.master_key_id)) is None


@pytest.mark.parametrize("stored", [b"", b"x" * 12, b"x" * 28])
def test_what_is_no_secret_is_not_read(stored: bytes) -> None:
    master = MasterKeys([NEW])

    assert master.decrypt(KEY, Encrypted(stored, master.current)) is None


def test_new_credentials_are_in_the_form_of_aws_and_never_the_same() -> None:
    permanent, temporary = new_credentials(), new_credentials(temporary=True)

    assert permanent.key_id.startswith("AKIA")
    assert temporary.key_id.startswith("ASIA")
    for new in (permanent, temporary):
        assert len(new.key_id) == 20
        assert set(new.key_id) <= set(string.ascii_uppercase + string.digits)
        assert len(new.secret) == 40
    assert permanent.token is None
    assert temporary.token
    assert len({new_credentials().secret for _ in range(100)}) == 100
