-- Does: returns the damaged pages that nodes met and that are not repaired: the relation ('' when the error does not name
--   it) and its kind (index, table, unknown), the page (-1: unknown), PostgreSQL's error, what repairs it, and the seconds
--   since it was met first.
-- Called by: database_state, database_statistics, database_overview; `skipmq doctor`.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
-- Routed: not: nodes run it on each partition itself.
create function skipmq.damaged_pages() returns table (
  relation text, kind text, page bigint, error text, remedy text, seconds float8
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  return query
  select
    d.relation, k.kind, d.page, d.error,
    case k.kind
      when 'index' then format('reindex index concurrently %s', d.relation)
      when 'table' then format(
        'switch over to a standby, whose page is probably intact; without one, copy the data directory, then discard the'
        ' rows of the page as a superuser: set zero_damaged_pages = on; vacuum full %s',
        coalesce((select t.oid::regclass::text from pg_class t where t.reltoastrelid = c.oid), d.relation))
      else 'find the damaged file in the server''s log'
    end,
    greatest(extract(epoch from skipmq.clock() - d.first_at), 0)::float8
  from skipmq.damage d
  left join pg_class c on c.oid = to_regclass(d.relation)
  cross join lateral (
    select case when c.relkind = 'i' then 'index' when c.oid is null then 'unknown' else 'table' end as kind) k
  order by d.relation, d.page;
end $$;
