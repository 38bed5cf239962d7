-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays
with wanted as (
  select
    org_id, key, seen_fence, seen_holder, seen_revision, fence, holder, revision, keep_until,
    state, since, request_version, request_sha, frame_sha, principal_sha, lease_ends, run_ends,
    life, reason, last_send, asked, not_found, ask_after, answer_status, answer_headers,
    answer_body, answer_day, day_body, due_at, closes, place
  from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[],
    $8::bigint[], $9::timestamptz[], $10::text[], $11::timestamptz[], $12::smallint[],
    $13::bytea[], $14::bytea[], $15::bytea[], $16::timestamptz[], $17::timestamptz[],
    $18::bigint[], $19::text[], $20::timestamptz[], $21::integer[], $22::integer[],
    $23::timestamptz[], $24::smallint[], $25::bytea[], $26::bytea[], $27::date[], $28::bytea[],
    $29::timestamptz[], $30::boolean[]
  ) with ordinality as wanted (
    org_id, key, seen_fence, seen_holder, seen_revision, fence, holder, revision, keep_until,
    state, since, request_version, request_sha, frame_sha, principal_sha, lease_ends, run_ends,
    life, reason, last_send, asked, not_found, ask_after, answer_status, answer_headers,
    answer_body, answer_day, day_body, due_at, closes, place
  )
), written as (
  update samekey.keys as keys
  set
    fence = wanted.fence,
    holder = wanted.holder,
    revision = wanted.revision,
    keep_until = wanted.keep_until,
    state = wanted.state,
    since = wanted.since,
    request_version = wanted.request_version,
    request_sha = wanted.request_sha,
    frame_sha = wanted.frame_sha,
    principal_sha = wanted.principal_sha,
    lease_ends = wanted.lease_ends,
    run_ends = wanted.run_ends,
    life = wanted.life,
    reason = wanted.reason,
    last_send = wanted.last_send,
    asked = wanted.asked,
    not_found = wanted.not_found,
    ask_after = wanted.ask_after,
    answer_status = wanted.answer_status,
    answer_headers = wanted.answer_headers,
    answer_body = wanted.answer_body,
    answer_day = wanted.answer_day
  from wanted
  where keys.org_id = wanted.org_id
    and keys.key = wanted.key
    and keys.fence = wanted.seen_fence
    and keys.holder = wanted.seen_holder
    and keys.revision = wanted.seen_revision
  returning
    wanted.org_id, wanted.key, wanted.answer_day, wanted.day_body, wanted.due_at, wanted.closes,
    wanted.place
), stored as (
  insert into samekey.answers (answer_day, org_id, key, body)
  select answer_day, org_id, key, day_body
  from written
  where day_body is not null
  on conflict (org_id, key, answer_day) do update
  set body = excluded.body
), moved as (
  update samekey.open_claims as open_claims
  set due_at = written.due_at
  from written
  where open_claims.org_id = written.org_id
    and open_claims.key = written.key
    and not written.closes
    and open_claims.due_at is distinct from written.due_at
), closed as (
  delete from samekey.open_claims as open_claims
  using written
  where open_claims.org_id = written.org_id
    and open_claims.key = written.key
    and written.closes
)
select place
from written
