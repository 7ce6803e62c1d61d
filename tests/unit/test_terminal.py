"""What text of others may do to a terminal: nothing."""

import tomllib

import pytest

from skipmq.config import queue_files
from skipmq.config.declarations import DeclaredQueue
from skipmq.telemetry.terminal import visible


@pytest.mark.parametrize(
    "character",
    [
        *map(chr, [*range(9), *range(11, 32), *range(127, 160)]),
        *"\u061c\u200e\u200f\u2028\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\U000e0041\ud800",
    ],
    ids=ascii,
)
def test_what_controls_a_terminal_is_replaced(character: str) -> None:
    assert visible(f"a{character}b") == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    "text", ["a b\tc\n", "\u00e4\u6f22\u0639\u05d0", "\u00a0\u3000", "\U0001f469\u200d\U0001f680"]
)
def test_texts_stay(text: str) -> None:
    assert visible(text) == text


def test_declarations_in_toml_control_no_terminal() -> None:
    tags = {"\x1b[2J\u202e": "\u009b31m\x7f\U000e0041", "plain": "\u00e4"}
    queue = DeclaredQueue(name="q", attributes={}, tags=tags)

    text = queue_files.write([queue])

    assert visible(text) == text
    assert tomllib.loads(text)["queues"]["q"]["tags"] == tags
    assert "\u00e4" in text
