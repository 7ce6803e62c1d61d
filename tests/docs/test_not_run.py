"""Which blocks of the documentation the gate does not run, and why.

`pytest -rP tests/docs/test_not_run.py` lists them.
"""

from support import pages

PAGES = [pages.read(file) for file in pages.files()]
NOT_RUN = [
    (page.name, block) for page in PAGES for block in page.blocks if block.reason is not None
]


def test_blocks_that_are_not_run_say_why() -> None:
    reasons = [f"{name}, line {block.line}: {block.reason}" for name, block in NOT_RUN]
    print(len(reasons), *reasons, sep="\n")  # noqa: T201 - the list.

    # A word or two is a label, not a reason.
    assert [text for text in reasons if len(text.partition(": ")[2].split()) < 3] == []


def test_slow_pages_say_why() -> None:
    assert [page.name for page in PAGES if page.slow is not None and not page.slow] == []
