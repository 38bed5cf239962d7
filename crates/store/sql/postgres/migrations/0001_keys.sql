create schema if not exists samekey;

-- What samekey has done to this database: one row for each migration.
create table samekey.migrations (
  number integer not null,
  name text not null,
  applied_at timestamptz not null default now(),
  constraint migrations_pkey primary key (number)
);

-- What all processes share: secrets that are made at the first start.
create table samekey.meta (
  name text collate "C" not null,
  bytes bytea not null,
  constraint meta_pkey primary key (name)
);

-- One row a key. The server reads and plans every check constraint anew for every statement: the
-- thirteen that would mirror the machine's states were measured at five times the cost of writing a
-- row. So the table has the one whose breach would lose money, and row_faults.sql finds the others.
--
-- Settling changes no indexed column, so that its updates stay on their page: no
-- index may be added on a column other than keep_until.
create table samekey.keys (
  org_id text collate "C" not null,
  key text collate "C" not null,
  fence bigint not null,
  revision bigint not null,
  keep_until timestamptz not null,
  since timestamptz,
  lease_ends timestamptz,
  run_ends timestamptz,
  life bigint,
  last_send timestamptz,
  ask_after timestamptz,
  asked integer,
  not_found integer,
  answer_day date,
  answer_status smallint,
  request_version smallint,
  state text collate "C" not null,
  reason text collate "C",
  holder bytea not null,
  request_sha bytea,
  frame_sha bytea,
  principal_sha bytea,
  answer_headers bytea,
  answer_body bytea,
  constraint keys_pkey primary key (org_id, key),
  -- A running row has a lease that ends after it began, and no other row has one.
  constraint keys_running_is_leased check (
    (state = 'running') = coalesce(lease_ends > since, false)
  )
) with (fillfactor = 90);

create index keys_keep_until on samekey.keys (keep_until);

-- The keys of committed open records. It is small, so that recovery finds them without an index
-- on the state.
create table samekey.open_claims (
  org_id text collate "C" not null,
  key text collate "C" not null,
  constraint open_claims_pkey primary key (org_id, key)
);

-- Bodies of finished answers that are too large for the row of their key, by the (UTC) day on which
-- their retention ends. A day's partition is dropped after its keys are swept.
create table samekey.answers (
  answer_day date not null,
  org_id text collate "C" not null,
  key text collate "C" not null,
  body bytea not null,
  constraint answers_pkey primary key (org_id, key, answer_day)
) partition by range (answer_day);
