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

-- One row a key. Settling changes no indexed column, so that its updates stay on their page: no
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
  constraint keys_fence_range check (fence >= 0),
  constraint keys_holder_length check (octet_length(holder) = 16),
  constraint keys_revision_range check (revision >= 1),
  constraint keys_state_known check (
    state in ('free', 'running', 'unknown', 'review', 'done', 'closed')
  ),
  constraint keys_since_unless_free check ((since is null) = (state = 'free')),
  constraint keys_request_unless_free check (
    (request_version is null) = (state = 'free')
    and (request_sha is null) = (state = 'free')
    and (frame_sha is null) = (state = 'free')
    and (principal_sha is null or state <> 'free')
  ),
  constraint keys_sha_length check (
    (request_sha is null or octet_length(request_sha) = 32)
    and (frame_sha is null or octet_length(frame_sha) = 32)
    and (principal_sha is null or octet_length(principal_sha) = 32)
  ),
  constraint keys_lease_while_running check (
    (lease_ends is not null) = (state = 'running')
    and (run_ends is not null) = (state = 'running')
  ),
  constraint keys_lease_has_length check (lease_ends is null or lease_ends > since),
  constraint keys_lease_within_run check (lease_ends is null or lease_ends <= run_ends),
  constraint keys_life_while_in_doubt check (
    (life is not null) = (state in ('unknown', 'review'))
  ),
  constraint keys_reason_while_in_doubt check (
    (reason is not null) = (state in ('unknown', 'review'))
  ),
  constraint keys_questions_while_unknown check (
    (last_send is not null) = (state = 'unknown')
    and (asked is not null) = (state = 'unknown')
    and (not_found is not null) = (state = 'unknown')
    and (ask_after is not null) = (state = 'unknown')
  ),
  constraint keys_answer_when_done check (answer_status is not null or state <> 'done'),
  constraint keys_answer_or_evidence check (
    answer_status is null or state in ('done', 'unknown')
  ),
  constraint keys_answer_with_status check (
    answer_status is not null
    or (answer_headers is null and answer_body is null and answer_day is null)
  ),
  constraint keys_answer_in_one_place check (
    answer_day is null
    or (state = 'done' and answer_body is null)
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
