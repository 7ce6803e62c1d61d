"""The database's counters of settled messages, to compare the rows of a reader with."""

from datetime import date
from typing import Any

from skipmq.analytics.postgres import history
from skipmq.analytics.reports.period import day_bounds
from skipmq.database.session import Session

# Periods are kept for seven days; the first of them may be incomplete.
_DAYS = 6
# One statement has one snapshot. `unread` were settled by transactions that the reader has not
# reached. A queue without history has no rows to be compared.
_COUNTERS = """
with bound as (
  select
    greatest(
      date_bin('10 minutes', clock_timestamp() - make_interval(days => %(days)s), 'epoch'),
      %(oldest)s::timestamptz
    ) as since,
    %(position)s::bigint as horizon
), counted as (
  select
    p.queue_id, sum(p.deleted)::bigint as deleted, sum(p.dead_lettered)::bigint as dead_lettered
  from bound b
  join skipmq_views.queue_period p on p.start >= b.since
  group by 1
), unread as (
  select
    h.queue_id, count(*) filter (where h.outcome = 'deleted') as deleted,
    count(*) filter (where h.outcome = 'dead-lettered') as dead_lettered
  from bound b
  join skipmq_views.history_metadata h on h.xid >= b.horizon and h.settled_at >= b.since
  group by 1
)
select
  q.account, q.region, q.queue, q.queue_id, o.outcome, b.since, b.horizon,
  coalesce(o.counted, 0) as counted, coalesce(o.unread, 0) as unread,
  (select count(*) from skipmq_views.erased_message e where e.queue_id = q.queue_id) as erased
from bound b
cross join skipmq_views.queue q
left join counted c on c.queue_id = q.queue_id
left join unread u on u.queue_id = q.queue_id
cross join lateral (
  values ('deleted', c.deleted, u.deleted), ('dead-lettered', c.dead_lettered, u.dead_lettered)
) o (outcome, counted, unread)
where q.retired_at is null and q.history_mode <> 'off'
order by q.queue_id, o.outcome
"""


def settled(session: Session, position: int, since: date = date.min) -> list[dict[str, Any]]:
    """Return what the database has counted, by queue and outcome, since a time.

    The rows of transactions below `position`, settled at or after the returned `since`, which is no
    earlier than the day given, and `unread` are `counted` together, apart from `erased`.
    """
    oldest = day_bounds(max([since, *history.days(session)[:1]]))[0]
    parameters = {"days": _DAYS, "oldest": oldest, "position": position}
    cursor = session.execute(_COUNTERS.encode(), parameters)
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
