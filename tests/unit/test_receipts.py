from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from skipmq.broker.messages import receipts
from skipmq.broker.messages.receipts import Receipt
from skipmq.protocol import errors

KEY = b"k" * 32
QUEUE = "arn:aws:sqs:us-east-1:000000000000:jobs"
RECEIPT = Receipt(
    message=42,
    receive_count=3,
    received_at=1_700_000_000_000_000,
    message_id="0b6f1c2a9d3e4f508a7b6c5d4e3f2a1b",
)


def sealed(receipt: Receipt = RECEIPT, key: bytes = KEY, queue: str = QUEUE) -> str:
    return receipts.seal((key,), queue).encode(*structs.astuple(receipt))


def opened(handle: str, *keys: bytes, queue: str = QUEUE) -> Receipt:
    return receipts.seal(keys or (KEY,), queue).decode(handle)


@given(
    st.builds(
        Receipt,
        message=st.integers(-(2**63), 2**63 - 1),
        receive_count=st.integers(-(2**31), 2**31 - 1),
        received_at=st.integers(0, 2**64 - 1),
        message_id=st.uuids().map(lambda each: each.hex),
    ),
    st.binary(min_size=1, max_size=64),
    st.text(max_size=80),
)
def test_handle_of_any_receipt_decodes_to_it(receipt: Receipt, key: bytes, queue: str) -> None:
    assert opened(sealed(receipt, key, queue), key, queue=queue) == receipt


def test_handle_of_another_queue_is_invalid() -> None:
    handle = sealed()

    with pytest.raises(errors.ReceiptHandleIsInvalid):
        opened(handle, queue=QUEUE + "2")


def test_handle_under_another_key_is_invalid() -> None:
    handle = sealed(key=b"other")

    with pytest.raises(errors.ReceiptHandleIsInvalid):
        opened(handle)


def test_handle_under_a_replaced_key_is_valid_while_that_is_accepted() -> None:
    handle = sealed(key=b"replaced")

    assert opened(handle, KEY, b"replaced") == RECEIPT


def test_handle_with_any_bit_changed_is_invalid() -> None:
    content = b64decode(sealed())

    for bit in range(len(content) * 8):
        forged = bytearray(content)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(errors.ReceiptHandleIsInvalid):
            opened(b64encode(forged).decode())


@pytest.mark.parametrize("cut", [slice(1, None), slice(None, -1), slice(None, 21), slice(0, 0)])
def test_handle_cut_short_is_invalid(cut: slice) -> None:
    content = b64decode(sealed())[cut]

    with pytest.raises(errors.ReceiptHandleIsInvalid):
        opened(b64encode(content).decode())


@given(st.text() | st.binary().map(lambda content: b64encode(content).decode()))
def test_handle_of_garbage_is_invalid(handle: str) -> None:
    with pytest.raises(errors.ReceiptHandleIsInvalid) as raised:
        opened(handle)

    assert raised.value.message == (
        f'The input receipt handle "{errors.shown(handle)}" is not a valid receipt handle.'
    )
