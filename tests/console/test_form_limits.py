"""How long a form may be, and of what it may consist."""

import pytest

from support.http import NodeProcess, raw
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in

LONG = {"theme": "light", "more": "<" * 1_000_000}


def cookies(visitor: Visitor) -> str:
    return "; ".join(f"{each.name}={each.value}" for each in visitor.cookies)


def test_form_is_short_before_the_sign_in_and_as_long_as_a_message_after_it(
    signing: NodeProcess, keys: Keys
) -> None:
    visitor = signed_in(signing, keys.create())
    shown = cookies(visitor)

    assert visitor.post("theme", LONG).status == 303
    assert visitor.post("sign-out").status == 303

    for stranger in (visitor, Visitor(signing.url, ACCOUNT)):
        refused = stranger.post("theme", LONG)
        assert (refused.status, "FormTooLong" in refused.body) == (413, True)
    # The cookie of the session that has ended is still a valid one.
    ended = Visitor(signing.url, ACCOUNT).post("theme", LONG, csrf="x", Cookie=shown)
    assert (ended.status, "FormTooLong" in ended.body) == (413, True)
    assert visitor.post("theme", {"theme": "light"}).status == 303


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("&".join(f"f{n}=x" for n in range(2_000)), "at most 2000 parameters"),
        ("theme=%ff", "not UTF-8"),
        ("theme=" + "%zz" * 100, "not UTF-8"),
    ],
    ids=["fields", "bytes", "escapes"],
)
def test_form_that_no_browser_sends_is_refused(node: NodeProcess, form: str, text: str) -> None:
    visitor = Visitor(node.url)
    token = visitor.csrf()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookies(visitor)}

    answer = raw(f"{node.url}/console/theme", f"{form}&csrf={token}".encode(), headers)

    assert (answer.status, text in answer.body) == (400, True)
