-- What samekey has done to this database: one row for each migration.
create table samekey_migrations (
  number integer not null,
  name text not null,
  applied_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  constraint samekey_migrations_pkey primary key (number)
) strict;

-- One row for each key. Times are microseconds since the Unix epoch. It has a rowid on purpose: rows
-- carry answers of many kilobytes, and a table without one would keep them in the inner pages of its
-- tree. Text compares byte by byte.
create table samekey_keys (
  org_id text not null,
  key text not null,
  fence integer not null,
  holder blob not null,
  revision integer not null,
  keep_until integer not null,
  state text not null,
  since integer,
  request_version integer,
  request_sha blob,
  frame_sha blob,
  principal_sha blob,
  lease_ends integer,
  run_ends integer,
  life integer,
  reason text,
  last_send integer,
  asked integer,
  not_found integer,
  ask_after integer,
  answer_status integer,
  answer_headers blob,
  answer_body blob,
  constraint samekey_keys_pkey primary key (org_id, key),
  constraint samekey_keys_org_id_length check (octet_length(org_id) between 1 and 255),
  constraint samekey_keys_key_length check (octet_length(key) between 1 and 255),
  constraint samekey_keys_fence_range check (fence >= 0),
  constraint samekey_keys_holder_length check (length(holder) = 16),
  constraint samekey_keys_revision_range check (revision >= 1),
  constraint samekey_keys_state_known check (
    state in ('free', 'running', 'unknown', 'review', 'done', 'closed')
  ),
  constraint samekey_keys_since_unless_free check ((since is null) = (state = 'free')),
  constraint samekey_keys_request_unless_free check (
    (request_version is null) = (state = 'free')
    and (request_sha is null) = (state = 'free')
    and (frame_sha is null) = (state = 'free')
    and (principal_sha is null or state <> 'free')
  ),
  constraint samekey_keys_sha_length check (
    (request_sha is null or length(request_sha) = 32)
    and (frame_sha is null or length(frame_sha) = 32)
    and (principal_sha is null or length(principal_sha) = 32)
  ),
  constraint samekey_keys_lease_while_running check (
    (lease_ends is not null) = (state = 'running')
    and (run_ends is not null) = (state = 'running')
  ),
  constraint samekey_keys_lease_has_length check (lease_ends is null or lease_ends > since),
  constraint samekey_keys_lease_within_run check (lease_ends is null or lease_ends <= run_ends),
  constraint samekey_keys_life_while_in_doubt check (
    (life is not null) = (state in ('unknown', 'review'))
  ),
  constraint samekey_keys_life_range check (life is null or life between 0 and fence),
  constraint samekey_keys_reason_while_in_doubt check (
    (reason is not null) = (state in ('unknown', 'review'))
  ),
  constraint samekey_keys_reason_known check (
    reason is null
    or reason in (
      'lease-lapsed', 'timed-out', 'connection-lost', 'server-error', 'handler-failed',
      'handler-panicked', 'handler-dropped', 'nobody-to-ask', 'not-found', 'questions-used-up',
      'found-different', 'restored'
    )
  ),
  constraint samekey_keys_questions_while_unknown check (
    (last_send is not null) = (state = 'unknown')
    and (asked is not null) = (state = 'unknown')
    and (not_found is not null) = (state = 'unknown')
    and (ask_after is not null) = (state = 'unknown')
  ),
  constraint samekey_keys_questions_range check (
    (asked is null or asked >= 0)
    and (not_found is null or not_found >= 0)
  ),
  constraint samekey_keys_answer_when_done check (answer_status is not null or state <> 'done'),
  constraint samekey_keys_answer_or_evidence check (
    answer_status is null or state in ('done', 'unknown')
  ),
  constraint samekey_keys_answer_status_range check (
    answer_status is null or answer_status between 100 and 999
  ),
  constraint samekey_keys_answer_headers_with_status check (
    answer_headers is null or answer_status is not null
  ),
  constraint samekey_keys_answer_body_with_headers check (
    answer_body is null or answer_headers is not null
  )
) strict;

-- What the sweep walks along. No column that settling changes stands in an index.
create index samekey_keys_keep_until
on samekey_keys (keep_until);

-- The claims that are open: recovery finds them here instead of in an index on the state. An open key
-- cannot be deleted while it stands here.
create table samekey_open_claims (
  org_id text not null,
  key text not null,
  constraint samekey_open_claims_pkey primary key (org_id, key),
  constraint samekey_open_claims_key foreign key (org_id, key)
    references samekey_keys (org_id, key)
    on delete restrict
) strict, without rowid;
