import json

import pytest

from skipmq.protocol.sns.filter_policy import compile_policy
from support.postgres import Connection
from support.sql import number

# A policy, a document, and whether it matches.
CASES: list[tuple[str, str, bool]] = [
    ('{"a": ["x"]}', '{"a": "x"}', True),
    ('{"a": ["x"]}', '{"a": "X"}', False),
    ('{"a": ["x"]}', '{"a": ["y", "x"]}', True),
    ('{"a": ["x"]}', "{}", False),
    ('{"a": ["x"], "b": [1]}', '{"a": "x", "b": 1.0}', True),
    ('{"a": ["x"], "b": [1]}', '{"a": "x", "b": "1"}', False),
    ('{"a": [null, true]}', '{"a": null}', True),
    ('{"a": [null, {"anything-but": "x"}]}', "{}", False),
    ('{"a": [{"prefix": "ab"}]}', '{"a": "abc"}', True),
    ('{"a": [{"prefix": "ab"}]}', '{"a": "cab"}', False),
    ('{"a": [{"suffix": ".b"}]}', '{"a": "a.b"}', True),
    ('{"a": [{"suffix": ".b"}]}', '{"a": "axb"}', False),
    ('{"a": [{"suffix": "b"}]}', '{"a": "b\\nx"}', False),
    ('{"a": [{"equals-ignore-case": "Ab+"}]}', '{"a": "aB+"}', True),
    ('{"a": [{"equals-ignore-case": "ab"}]}', '{"a": "abc"}', False),
    ('{"a": [{"wildcard": "a*c*"}]}', '{"a": "abbc"}', True),
    ('{"a": [{"wildcard": "a*c"}]}', '{"a": "abcd"}', False),
    ('{"a": [{"wildcard": "a\\\\*"}]}', '{"a": "a*"}', True),
    ('{"a": [{"wildcard": "a\\\\*"}]}', '{"a": "ab"}', False),
    ('{"a": [{"anything-but": "x"}]}', '{"a": "y"}', True),
    ('{"a": [{"anything-but": "x"}]}', '{"a": "x"}', False),
    ('{"a": [{"anything-but": ["x", 1]}]}', '{"a": 1}', False),
    ('{"a": [{"anything-but": ["x", 1]}]}', '{"a": 2}', True),
    ('{"a": [{"anything-but": {"prefix": "x"}}]}', '{"a": "xy"}', False),
    ('{"a": [{"anything-but": {"prefix": "x"}}]}', '{"a": "yx"}', True),
    ('{"a": [{"numeric": ["=", 1.5]}]}', '{"a": 1.50}', True),
    ('{"a": [{"numeric": [">", 0, "<=", 100]}]}', '{"a": 100}', True),
    ('{"a": [{"numeric": [">", 0, "<=", 100]}]}', '{"a": 0}', False),
    ('{"a": [{"numeric": ["<", -1]}]}', '{"a": -2}', True),
    ('{"a": [{"numeric": ["<", 1]}]}', '{"a": "0"}', False),
    ('{"a": [{"exists": true}]}', '{"a": 1}', True),
    ('{"a": [{"exists": true}]}', '{"b": 1}', False),
    ('{"a": [{"exists": false}]}', '{"b": 1}', True),
    ('{"a": {"b": [{"exists": false}]}}', '{"a": {"c": 1}}', True),
    ('{"a": {"b": [{"exists": false}]}}', '{"a": {"b": 1}}', False),
    ('{"a": [{"cidr": "10.0.0.0/24"}]}', '{"a": "10.0.0.7"}', True),
    ('{"a": [{"cidr": "10.0.0.0/24"}]}', '{"a": "10.0.1.7"}', False),
    ('{"a": [{"cidr": "2001:db8::/32"}]}', '{"a": ["x", "2001:db8::1"]}', True),
    ('{"a": [{"cidr": "10.0.0.0/24"}, "x"]}', '{"a": "x"}', True),
    ('{"$or": [{"a": ["x"]}, {"b": ["y"]}]}', '{"b": "y"}', True),
    ('{"$or": [{"a": ["x"]}, {"b": ["y"]}]}', '{"b": "x"}', False),
    ('{"c": [1], "$or": [{"a": ["x"]}, {"b": ["y"]}]}', '{"b": "y"}', False),
    ('{"o": {"$or": [{"a": ["x"]}, {"b": ["y"]}]}}', '{"o": {"b": "y"}}', True),
    ('{"o": {"n": ["x"]}}', '{"o": {"n": "x"}}', True),
    ('{"o.n": ["x"]}', '{"o": {"n": "x"}}', True),
    ('{"o.n": ["x"]}', '{"o.n": "x"}', True),
    ('{"o": {"n": ["x"]}}', '{"o.n": "x"}', True),
    ('{"o": {"n": ["x"]}}', '{"o": [{"n": ["y"]}, {"n": ["x"]}]}', True),
    ('{"o": {"n": ["x"]}}', '{"o": [], "p": 1}', False),
]
INVALID = [
    ('{"a": "x"}', '"a" must be an object or an array'),
    ('{"a": []}', "Empty arrays are not allowed"),
    ('{"a": [{"anything-but": []}]}', "Empty arrays are not allowed"),
    ('{"a": {}}', "Empty objects are not allowed"),
    ('{"a": ["x"]', "failed to parse JSON. Unexpected end-of-input"),
    ('{"a": [["x"]]}', "Match value must be String, number, true, false, or null"),
    ('{"a": [{"prefix": "x", "suffix": "y"}]}', "Only one key allowed in match expression"),
    ('{"a": [{"what": "x"}]}', "Unrecognized match type what"),
    ('{"a": [{"suffix": 1}]}', "suffix match pattern must be a string"),
    ('{"a": [{"cidr": ["x"]}]}', "prefix match pattern must be a string"),
    ('{"a": [{"cidr": "x"}]}', "Malformed CIDR, one '/' required"),
    ('{"a": [{"cidr": "x/y"}]}', "Malformed CIDR, mask bits must be an integer"),
    ('{"a": [{"cidr": "x/8"}]}', "Nonstandard IP address: x"),
    ('{"a": [{"exists": "x"}]}', "exists match pattern must be either true or false."),
    ('{"a": [{"numeric": []}]}', "Invalid member in numeric match: ]"),
    ('{"a": [{"numeric": [1]}]}', "Invalid member in numeric match: 1"),
    ('{"a": [{"numeric": ["<>", 1]}]}', "Unrecognized numeric range operator: <>"),
    ('{"a": [{"numeric": ["<", "1"]}]}', "Value of < must be numeric"),
    ('{"a": [{"numeric": ["="]}]}', "Value of equals must be numeric"),
    ('{"a": [{"numeric": ["<", 1, ">", 0]}]}', "Too many elements in numeric expression"),
    ('{"a": [{"numeric": [">", 1, ">", 3]}]}', "Bad numeric range operator: >"),
    ('{"a": [{"numeric": [">", 1, 30]}]}', "Bad value in numeric range: 30"),
    ('{"a": [{"numeric": [">", 1, "<", 1]}]}', "Bottom must be less than top"),
    (
        '{"a": [{"numeric": [">", 1, "<", 3, "<"]}]}',
        "Too many terms in numeric range expression",
    ),
    ('{"a": [{"anything-but": {"suffix": "x"}}]}', "Unsupported anything-but pattern: suffix"),
    (json.dumps({k: ["x"] for k in "abcdef"}), "Filter policy can not have more than 5 keys"),
    (json.dumps({k: [*range(13)] for k in "ab"}), "Filter policy is too complex"),
    (
        json.dumps({"a": {"b": {"c": [*range(4)]}}, "d": {"e": [*range(3)]}, "f": [1, 2, 3]}),
        "Filter policy is too complex",
    ),
    ("x" * 262_145, "Filter policy is larger than 262144 bytes"),
    ("[]", "Filter policy must be an object"),
]


def test_documents_match(owner: Connection) -> None:
    match = "select skipmq.matches_policy(%s, %s, nullif(%s, 'null')::jsonb)"
    whole = "select coalesce(%s::jsonb @@ %s::jsonpath, false)"
    wrong = []
    for policy, document, expected in CASES:
        compiled = compile_policy(policy, "MessageBody")
        assert compiled is not None
        networks = json.dumps(compiled.networks)
        found = [number(owner, match, document, compiled.filter, networks)]
        if compiled.networks is None:
            found.append(number(owner, whole, document, compiled.filter))
        if found != [expected] * len(found):
            wrong.append((policy, document, found))

    assert wrong == []


@pytest.mark.parametrize(("policy", "message"), INVALID)
def test_invalid_policy_is_refused(policy: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared.
        compile_policy(policy, "MessageBody")

    assert str(caught.value) == message


def test_nested_policy_of_attributes_is_refused() -> None:
    with pytest.raises(ValueError, match="does not support nested filter policy"):
        compile_policy('{"a": {"b": ["x"]}}', "MessageAttributes")
    flat = compile_policy('{"a.b": ["x"]}', "MessageAttributes")
    assert flat is not None
    assert flat.filter == '(exists($."a.b"[*][*] ? (@ == "x")))'
