"""The statements of the client: each calls the functions for applications.

Parameters are `%s`; `numbered` has them as drivers write them that number theirs.
"""

from itertools import count

# One message for each body, in their order; gives their ids.
SEND = """
select skipmq.send_message(
  %s::text, b.body, %s::text::jsonb, %s::integer, %s::text, %s::text, %s::text)::text
from unnest(%s::text[]) b (body)"""
SEND_FIFO = """
select skipmq.send_fifo_message(
  %s::text, b.body, %s::text, b.deduplication_id, %s::text::jsonb, %s::text, %s::text)::text
from unnest(%s::text[], %s::text[]) b (body, deduplication_id)"""


def numbered(statement: str) -> str:
    """Return a statement with `$1`, `$2`, … for its parameters."""
    numbers = count(1)
    head, *rest = statement.split("%s")
    return head + "".join(f"${next(numbers)}{part}" for part in rest)
