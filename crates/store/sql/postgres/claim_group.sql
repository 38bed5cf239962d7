-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays.
-- The arrays are in the order of the keys, and so are the inserts.
with offered as (
  select
    org_id, key, fence, holder, revision, keep_for, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, route, outbound_key, request
  from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::interval[], $7::text[],
    $8::interval[], $9::smallint[], $10::bytea[], $11::bytea[], $12::bytea[], $13::interval[],
    $14::interval[], $15::text[], $16::bytea[], $17::bytea[]
  ) as offered (
    org_id, key, fence, holder, revision, keep_for, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, route, outbound_key, request
  )
), inserted as (
  insert into samekey.keys (
    org_id, key, fence, holder, revision, keep_until, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends
  )
  select
    org_id, key, fence, holder, revision, now() + keep_for, state, now() + since, request_version,
    request_sha, frame_sha, principal_sha, now() + lease_ends, now() + run_ends
  from offered
  on conflict (org_id, key) do nothing
  returning org_id, key, lease_ends
), opened as (
  insert into samekey.open_claims (org_id, key, route, outbound_key, due_at, request)
  select
    inserted.org_id, inserted.key, offered.route, offered.outbound_key, inserted.lease_ends,
    offered.request
  from inserted
  join offered
    on offered.org_id = inserted.org_id
    and offered.key = inserted.key
  on conflict (org_id, key) do update
  set
    route = excluded.route,
    outbound_key = excluded.outbound_key,
    due_at = excluded.due_at,
    request = excluded.request
)
select org_id, key, now() as seen_at
from inserted
