"""Text of others on a terminal: no character of it may control the terminal or turn the text."""

from unicodedata import category

# Of the characters without a form these stay: ends of lines, tabs, and the joiners of scripts.
_KEPT = "\n\t\u200c\u200d"


def visible(text: str) -> str:
    """Return a text with a replacement character for each control and mark of direction."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in _KEPT or category(c) == "Zs" else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )
