-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays
with settled as (
  update samekey.keys as keys
  set
    revision = wanted.revision,
    keep_until = wanted.keep_until,
    state = wanted.state,
    since = wanted.since,
    lease_ends = null,
    run_ends = null,
    answer_status = wanted.answer_status,
    answer_headers = wanted.answer_headers,
    answer_body = wanted.answer_body
  from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[],
    $7::timestamptz[], $8::text[], $9::timestamptz[], $10::smallint[], $11::bytea[], $12::bytea[]
  ) with ordinality as wanted (
    org_id, key, seen_fence, seen_holder, seen_revision, revision, keep_until, state, since,
    answer_status, answer_headers, answer_body, place
  )
  where keys.org_id = wanted.org_id
    and keys.key = wanted.key
    and keys.fence = wanted.seen_fence
    and keys.holder = wanted.seen_holder
    and keys.revision = wanted.seen_revision
  returning wanted.org_id, wanted.key, wanted.place
), closed as (
  delete from samekey.open_claims as open_claims
  using settled
  where open_claims.org_id = settled.org_id
    and open_claims.key = settled.key
)
select place
from settled
