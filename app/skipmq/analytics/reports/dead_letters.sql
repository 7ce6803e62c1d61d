-- Body shapes, attributes, senders and groups that dead letters of a queue share: the 50 of each queue with the highest
-- `excess`, of those with at least two dead letters (one alone shares nothing).
--
-- `settled` are all messages with the property, `rate` the share of dead letters in them, `queue_rate` that in all
-- messages of the queue, `lift` their quotient, `excess` the dead letters beyond the queue's rate, and `example` a message
-- ID. Body shapes, such as `object<id: number, tags: array<string>>`, and attributes need the HistoryMode full.
with rates as (
  select account, region, queue, count(*) filter (where outcome = 'dead-lettered') / count(*) as queue_rate
  from history
  where settled_at is not null
  group by account, region, queue
  having count(*) filter (where outcome = 'dead-lettered') > 0
),
shaped as (
  select
    *,
    if(body is null, null, coalesce(schema_of_variant(try_parse_json(body)), 'not JSON')) as shape
  from history
  join rates using (account, region, queue)
  where settled_at is not null
),
properties as (
  select
    account, region, queue, queue_rate, message_id, settled_at, outcome = 'dead-lettered' as is_dead,
    explode(concat(
      array(
        struct('body shape' as kind, shape as cause), struct('sender' as kind, sender as cause),
        struct('group' as kind, group_id as cause)
      ),
      transform(
        coalesce(map_entries(from_json(attributes, 'map<string, struct<StringValue: string>>')), array()),
        each -> struct('attribute' as kind, each.key || ' = ' || each.value.StringValue as cause)
      )
    )) as property
  from shaped
),
found as (
  select
    account, region, queue, queue_rate, property.kind as kind, property.cause as cause,
    count(*) filter (where is_dead) as dead_lettered,
    count(*) as settled,
    min(settled_at) filter (where is_dead) as first_at,
    max(settled_at) filter (where is_dead) as last_at,
    max_by(message_id, settled_at) filter (where is_dead) as example
  from properties
  where property.cause is not null
  group by account, region, queue, queue_rate, property.kind, property.cause
),
-- Numbers of all types are one shape. A type follows the beginning, a field's name or the bracket of an array.
named as (
  select
    account, region, queue, queue_rate, kind, dead_lettered, settled, first_at, last_at, example,
    if(kind <> 'body shape', cause,
      regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        cause,
        '(^|: |<)(BIGINT|DOUBLE|FLOAT|DECIMAL[(][0-9]+, *[0-9]+[)])', '$1number'),
        '(^|: |<)STRING', '$1string'),
        '(^|: |<)BOOLEAN', '$1boolean'),
        '(^|: |<)VOID', '$1null'),
        '(^|: |<)OBJECT', '$1object'),
        '(^|: |<)ARRAY', '$1array'),
        '(^|: |<)VARIANT', '$1mixed')
    ) as cause
  from found
),
counted as (
  select
    account, region, queue, queue_rate, kind, cause,
    sum(dead_lettered) as dead_lettered,
    sum(settled) as settled,
    min(first_at) as first_at,
    max(last_at) as last_at,
    max_by(example, last_at) as example
  from named
  group by account, region, queue, queue_rate, kind, cause
),
ranked as (
  select
    *,
    dead_lettered / settled as rate,
    dead_lettered / settled / queue_rate as lift,
    dead_lettered - settled * queue_rate as excess,
    row_number() over (
      partition by account, region, queue order by dead_lettered - settled * queue_rate desc, kind, cause
    ) as place
  from counted
  where dead_lettered >= 2
)
select /*+ repartition(1) */
  account, region, queue, kind, cause, dead_lettered, settled, rate, queue_rate, lift, excess, first_at, last_at, example
from ranked
where place <= 50
order by account, region, queue, place
