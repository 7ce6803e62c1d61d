{# The rows that an incremental model reads: per partition of the broker those of the hours from the first new row on.

   A row's position is its transaction: neither ids nor times are in the order of commits. Transactions are numbered per
   partition (the upper bits of queue_id). A lake has final windows of them; in the database rows are final whose
   transaction is older than all open ones. The model has the columns `partition` and `last_xid`. #}
{% macro unread() %}
    {%- set is_lake = target.type == 'duckdb' -%}
    {%- set final = 'true' if is_lake else 'xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint' -%}
    {%- if not is_incremental() -%}
        {{ return(final) }}
    {%- endif -%}
    {%- set windows -%}
        select
            queue_id >> 57,
            max(xid),
            min(date_trunc('hour', settled_at))
        from {{ source('skipmq', 'history') }} as h
        where {{ final }} and xid > coalesce((
            select max(last_xid)
            from {{ this }}
            {% if is_lake %}where partition = h.queue_id >> 57{% endif %}
        ), -1)
        group by 1
    {%- endset -%}
    {%- set rows = [] -%}
    {%- for partition, last_xid, hour in run_query(windows).rows -%}
        {%- do rows.append('(queue_id >> 57 = %s and xid <= %s and settled_at >= \'%s\')' % (partition, last_xid, hour)) -%}
    {%- endfor -%}
    {{ return(rows | join(' or ') or 'false') }}
{% endmacro %}
