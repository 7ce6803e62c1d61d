"""The statements of the client: each calls the functions for applications.

Parameters are `%s`; `numbered` has them as drivers write them that number theirs.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from skipmq.protocol import limits

# A queue that names none is in those of the connection: its URL, role or database may set them.
ACCOUNT = (
    "coalesce(%s::text, nullif(current_setting('skipmq.account', true), ''),"
    f" '{limits.DEFAULT_ACCOUNT}')"
)
REGION = (
    "coalesce(%s::text, nullif(current_setting('skipmq.region', true), ''),"
    f" '{limits.DEFAULT_REGION}')"
)
# A time as microseconds since 1970: DateStyle and timezone are the caller's.
MICROSECONDS = "(extract(epoch from {}) * 1000000)::bigint"
PLACE = f"select {ACCOUNT}, {REGION}"

# One message for each body, in their order; returns their ids. '' is no deduplication id: whether
# an array's null is one depends on array_nulls, which is the caller's.
SEND = f"""
select skipmq.send_message(
  %s::text, b.body, %s::text::jsonb, %s::integer, {ACCOUNT}, {REGION}, %s::text,
  p_deliver_at => %s::text::timestamptz)
from unnest(%s::text[]) b (body)"""
SEND_UNIQUE = f"""
select skipmq.send_message(
  %s::text, b.body, %s::text::jsonb, %s::integer, {ACCOUNT}, {REGION}, %s::text,
  p_deliver_at => %s::text::timestamptz, p_deduplication_id => nullif(b.deduplication_id, ''))
from unnest(%s::text[], %s::text[]) b (body, deduplication_id)"""
SEND_FIFO = f"""
select skipmq.send_fifo_message(
  %s::text, b.body, %s::text, nullif(b.deduplication_id, ''), %s::text::jsonb, {ACCOUNT}, {REGION})
from unnest(%s::text[], %s::text[]) b (body, deduplication_id)"""

PUBLISH = f"""
select skipmq.publish(
  %s::text, %s::text, %s::text::jsonb, %s::text, %s::text, %s::text, {ACCOUNT}, {REGION})"""
SCHEDULE = f"""
select skipmq.create_schedule(
  %s::text, %s::text, %s::text, %s::text, %s::text, p_group_id => %s::text,
  p_attributes => %s::text::jsonb, p_account => {ACCOUNT}, p_region => {REGION})"""

# The claim commits by itself, and like that of a node waits for no standby: what a failover undoes
# is delivered again. The others name claimed messages by ids, receive counts and message ids.
CLAIM = f"""
select r.id, r.receive_count, r.message_id::text, r.body, r.attributes, r.approximate_receive_count,
  {MICROSECONDS.format("r.sent_at")}, r.group_id, r.dead_letter_source, r.trace_header, r.deliveries
from (select set_config('synchronous_commit', 'off', true)) c,
  skipmq.receive_message(%s::text, %s::integer, %s::integer, {ACCOUNT}, {REGION}) r"""
_CLAIMED = "from unnest(%s::bigint[], %s::integer[], %s::uuid[]) m (id, receive_count, message_id)"
DELETE = f"""
select unnest(skipmq.delete_received(
  p_queue => %s::text, p_account => {ACCOUNT}, p_region => {REGION},
  p_ids => %s::bigint[], p_receive_counts => %s::integer[], p_message_ids => %s::uuid[]))"""
_DELETE_ONE = f"""
select skipmq.delete_message(
  p_queue => %s::text, p_account => {ACCOUNT}, p_region => {REGION},
  p_id => %s::bigint, p_receive_count => %s::integer, p_message_id => %s::uuid)"""
HIDE = f"""
select skipmq.change_message_visibility(
  %s::text, m.id, m.receive_count, m.message_id, %s::integer, p_reason => %s::text,
  p_account => {ACCOUNT}, p_region => {REGION}) {_CLAIMED}"""
RETURN = f"""
select skipmq.return_message(
  %s::text, m.id, m.receive_count, m.message_id, {ACCOUNT}, {REGION}) {_CLAIMED}"""
DEAD_LETTER = f"""
select skipmq.dead_letter_message(
  %s::text, m.id, m.receive_count, m.message_id, %s::text, {ACCOUNT}, {REGION}) {_CLAIMED}"""

_ONE = "from (values (%s::bigint, %s::integer, %s::uuid)) m (id, receive_count, message_id)"


def settling(
    statement: str, before: Sequence[Any], claimed: Sequence[tuple[Any, Any, Any]]
) -> tuple[str, list[Any]]:
    """Return one of these for what was claimed, with its parameters: `before` are the first.

    One message needs no arrays, which cost a worker and the server some of what a job does.
    """
    if len(claimed) == 1:
        of_one = _DELETE_ONE if statement is DELETE else statement.replace(_CLAIMED, _ONE)
        return of_one, [*before, *claimed[0]]
    return statement, [*before, *map(list, zip(*claimed, strict=True))]


LISTEN = "listen skipmq"
NOTIFY = "select pg_notify('skipmq', n.payload) from unnest(%s::text[]) n (payload)"


def numbered(statement: str) -> str:
    """Return a statement with `$1`, `$2`, … for its parameters."""
    numbers = count(1)
    head, *rest = statement.split("%s")
    return head + "".join(f"${next(numbers)}{part}" for part in rest)
