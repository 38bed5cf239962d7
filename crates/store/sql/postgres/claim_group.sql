-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays.
-- The arrays are in the order of the keys, and so are the inserts.
with inserted as (
  insert into samekey.keys (
    org_id, key, fence, holder, revision, keep_until, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends
  )
  select
    org_id, key, fence, holder, revision, now() + keep_for, state, now() + since, request_version,
    request_sha, frame_sha, principal_sha, now() + lease_ends, now() + run_ends
  from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::interval[], $7::text[],
    $8::interval[], $9::smallint[], $10::bytea[], $11::bytea[], $12::bytea[], $13::interval[],
    $14::interval[]
  ) as offered (
    org_id, key, fence, holder, revision, keep_for, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends
  )
  on conflict (org_id, key) do nothing
  returning org_id, key
), opened as (
  insert into samekey.open_claims (org_id, key)
  select org_id, key
  from inserted
  on conflict (org_id, key) do nothing
)
select org_id, key, now() as seen_at
from inserted
