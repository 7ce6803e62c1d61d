from hashlib import md5

from hypothesis import given
from hypothesis import strategies as st

from skipmq.protocol.message import attributes_md5, body_md5
from skipmq.protocol.requests import AttributeValue


def test_attributes_of_the_known_vector_give_its_digest() -> None:
    attributes = {"MyAttribute": AttributeValue(DataType="String", StringValue="foobar")}

    assert attributes_md5(attributes) == "adb59cd4678ea5a855436b949cd07ab6"


def test_attributes_of_each_kind_are_laid_out_in_order_of_name() -> None:
    attributes = {
        "b": AttributeValue(DataType="Binary.x", BinaryValue=b"\x00\xff"),
        "a": AttributeValue(DataType="Number", StringValue="1"),
        "é": AttributeValue(DataType="String", StringValue="ü"),
    }
    layout = (
        b"\0\0\0\1a\0\0\0\6Number\1\0\0\0\0011"
        b"\0\0\0\1b\0\0\0\10Binary.x\2\0\0\0\2\0\xff"
        b"\0\0\0\2\xc3\xa9\0\0\0\6String\1\0\0\0\2\xc3\xbc"
    )

    assert attributes_md5(attributes) == md5(layout, usedforsecurity=False).hexdigest()


@given(st.permutations(["a", "B", "ab", "_", "é"]))
def test_attributes_in_any_order_give_one_digest(names: list[str]) -> None:
    def attributes(order: list[str]) -> dict[str, AttributeValue]:
        return {name: AttributeValue(DataType="String", StringValue=name) for name in order}

    assert attributes_md5(attributes(names)) == attributes_md5(attributes(sorted(names)))


def test_attributes_none_give_the_digest_of_nothing() -> None:
    assert attributes_md5({}) == "d41d8cd98f00b204e9800998ecf8427e"


def test_body_is_digested_in_utf8() -> None:
    assert body_md5("hello") == "5d41402abc4b2a76b9719d911017c592"
    assert body_md5("é") == md5(b"\xc3\xa9", usedforsecurity=False).hexdigest()
