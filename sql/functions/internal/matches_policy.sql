-- Does: returns whether a document matches a compiled filter policy. p_networks has, for each variable of the filter, the
--   paths of addresses and their network.
-- Called by: deliveries.
-- Locks, in order: none.
-- Raises: nothing.
-- Relies on index: none.
create function skipmq.matches_policy(p_document jsonb, p_filter jsonpath, p_networks jsonb) returns boolean
language plpgsql immutable
as $$
declare
  v_variables jsonb := '{}';
  v_network record;
  v_address text;
  v_is_in boolean;
begin
  for v_network in select n.key, n.value -> 'paths' as paths, (n.value ->> 'network')::cidr as network
    from jsonb_each(coalesce(p_networks, '{}')) n
  loop
    v_is_in := false;
    for v_address in
      select a #>> '{}'
      from jsonb_array_elements_text(v_network.paths) p (path)
      cross join lateral jsonb_path_query(p_document, p.path::jsonpath) a
      where jsonb_typeof(a) = 'string'
    loop
      begin
        v_is_in := v_is_in or v_address::inet <<= v_network.network;
      exception
        when data_exception then
          null; -- No address.
      end;
    end loop;
    v_variables := v_variables || jsonb_build_object(v_network.key, v_is_in);
  end loop;
  return coalesce(jsonb_path_match(p_document, p_filter, v_variables, silent => true), false);
end $$;
