"""Messages of which most are nearly what SQS takes, as the JSON wire has them."""

import base64
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

# The MaximumMessageSize of the queues that they are for.
MOST = 2048
SIGNS = (
    'aZ09_-. \t\n\r\0\x01\x0b\x1f\x7f"\\<&ßé中٣²Ⅷ\u0301\ud7ff\ud800\udfff\ue000\ufffd\ufffe\uffff'
    "\U0001f600\U0001fffe"
)
TEXT = st.text(st.sampled_from(SIGNS), max_size=4) | st.sampled_from(SIGNS).map("a{}b".format)
NAMES = st.sampled_from(
    [
        *(
            "",
            ".",
            ".a",
            "a.",
            "a..b",
            "a.b.c",
            "a b",
            "a/b",
            "a:b",
            "AWS",
            "AWS.",
            "aws.x",
            "aWs.y",
        ),
        *("awsx", "x.AWS.y", "Amazon", "Amazon.x", "AMAZON.", "amazon-x", "x" * 256, "x" * 257),
        *("ß" * 256, "ß" * 257, "attr.1øßä", "日本.é", "٣", "²", "Ⅷ", "a\u0301", "\U0001d7d8", "ª"),
    ]
) | st.text(st.sampled_from("aZ9_-.ß٣² "), max_size=5)
TYPES = st.sampled_from(
    [
        *("String", "Number", "String.", "String.x.y", "Number.int", "String.ß ", "String.\t"),
        *("string", "Str", "Strings", "", ".String", " String", "Binary", "Binary.x", "Number "),
        *("String.\x01", "String.\ufffe", "String." + "x" * 249, "String." + "x" * 250, "Boolean"),
        "String." + "ß" * 249,
    ]
)
NUMBERS = st.sampled_from(
    [
        *("0", "-0", "+1", "1.", ".5", "-.5e-3", "1e+5", "007", "1E5", "0e999", "0.0", "00"),
        *("1e126", "1e127", "9.9e126", "-1e126", "1e-128", "9e-129", "0.1e-127", "0.01e-127"),
        *("9" * 38, "9" * 39, "1" + "0" * 126, "1" + "0" * 127, "0" * 60 + "1", "0." + "0" * 140),
        *("0." + "0" * 127 + "1", "0." + "0" * 128 + "1", "1." + "0" * 50, "0." + "1" * 39),
        *("1e0000000000000000000000005", "1e999999999999999999", "1e9999999999999999999"),
        *(
            "",
            ".",
            "+",
            "-",
            "e5",
            "1e",
            "1e+",
            "--1",
            "1-",
            "0x1f",
            "NaN",
            "Infinity",
            "1,5",
            "1_0",
        ),
        *(" 1", "1 ", "1\n", "\uff11", "٣", "1.2.3", "1e1.5", "½"),
    ]
) | st.from_regex(r"[+-]?[0-9]{0,4}\.?[0-9]{0,4}([eE][+-]?[0-9]{0,4})?", fullmatch=True)
BASE64 = st.sampled_from(
    [
        *(
            "YQ==",
            "YR==",
            "YWI=",
            "YWJ=",
            "YWJj",
            "+/==",
            "",
            "YQ=",
            "YQ",
            "Y",
            "Y===",
            "====",
            "=",
            "YQ=a",
        ),
        *("YQ==YQ==", "YW Jj", "YWJj\n", " YWJj", "_-==", "YWJjZA===", "ßWJj", "YW\0=", "A" * 400),
    ]
) | st.binary(max_size=9).map(lambda value: base64.b64encode(value).decode())
IDENTIFIERS = st.sampled_from(
    [*("a", "!~", "a-b_c", "x" * 128), *("", " ", "a b", "a\n", "ß", "\x7f", "\0", "x" * 129)]
) | st.text(st.sampled_from("aZ!~\x20\x21\x7e\x7f\t"), max_size=4)

STRING = {"DataType": "String", "StringValue": "ß"}
ODD_VALUES = st.sampled_from(
    [
        *({"DataType": "String"}, {"StringValue": "x"}, {}, [], None, "x", 1, {"DataType": None}),
        *({**STRING, "BinaryValue": ""}, {**STRING, "BinaryValue": "YQ=="}, {**STRING, "Other": 1}),
        *({**STRING, "BinaryValue": None}, {**STRING, "StringListValues": None}),
        *({**STRING, "StringListValues": []}, {**STRING, "BinaryListValues": ["YQ=="]}),
        *({**STRING, "StringValue": 5}, {**STRING, "DataType": 5}, {**STRING, "StringValue": None}),
        *(
            {"DataType": "Binary", "StringValue": "x"},
            {"DataType": "Number", "BinaryValue": "MQ=="},
        ),
        {"DataType": "Binary", "BinaryValue": 5},
    ]
)
VALUES = (
    ODD_VALUES
    | TYPES.map(lambda kind: {"DataType": kind, "StringValue": "1"})
    | TEXT.map(lambda text: {"DataType": "String", "StringValue": text})
    | NUMBERS.map(lambda text: {"DataType": "Number", "StringValue": text})
    | BASE64.map(lambda text: {"DataType": "Binary.x", "BinaryValue": text})
)
ATTRIBUTES = (
    NAMES.map(lambda name: {name: STRING})
    | VALUES.map(lambda value: {"a": value})
    | st.integers(0, 12).map(lambda n: {f"name-{each}": STRING for each in range(n)})
    | st.sampled_from([None, {}, [], "x", 5])
)
TRACES = st.sampled_from(["Root=1-5759e988", "", " ", "ß"]) | TEXT
DELAYS = st.sampled_from([None, -(2**31), -1, 0, 1, 899, 900, 901, 999_999_999, 2**31 - 1])
BODIES = st.just("") | TEXT | st.integers(-1, 1).map(lambda n: "x" * (MOST + n))
FIELDS: dict[str, SearchStrategy[Any]] = {
    "MessageBody": BODIES,
    "MessageAttributes": ATTRIBUTES,
    "MessageGroupId": st.none() | IDENTIFIERS,
    "trace": TRACES,
}
STANDARD = FIELDS | {"DelaySeconds": DELAYS}
FIFO = FIELDS | {"MessageDeduplicationId": st.none() | IDENTIFIERS}
GOOD = {"MessageBody": "{}", "MessageAttributes": {"a": STRING}, "MessageGroupId": "g"}


@st.composite
def messages(draw: st.DrawFn, fields: dict[str, SearchStrategy[Any]], good: Any) -> Any:
    """Give a message, and how many of its fields are perhaps not as they should be."""
    changed = draw(st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True))
    return good | {field: draw(fields[field]) for field in changed}, len(changed)
