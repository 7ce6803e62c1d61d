-- The damaged pages that nodes met (SQLSTATE XX001, XX002, 58030), until they are repaired.
create table skipmq.damage (
  -- The table, index or TOAST table, and the number of its page, where the error names them; otherwise '' and -1.
  relation text collate "C" not null,
  page bigint not null,
  -- The file of the relation at that time (null: unknown): REINDEX and VACUUM FULL write another one.
  file oid,
  -- PostgreSQL's error.
  error text not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  constraint damage_pkey primary key (relation, page)
);
