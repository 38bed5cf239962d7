-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays
with offered as (
  select
    org_id, key, fence, holder, revision, keep_for, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
    ask_after, answer_status, answer_headers, answer_body, opens, place
  from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::interval[], $7::text[],
    $8::interval[], $9::smallint[], $10::bytea[], $11::bytea[], $12::bytea[], $13::interval[],
    $14::interval[], $15::bigint[], $16::text[], $17::interval[], $18::integer[], $19::integer[],
    $20::interval[], $21::smallint[], $22::bytea[], $23::bytea[], $24::boolean[]
  ) with ordinality as offered (
    org_id, key, fence, holder, revision, keep_for, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
    ask_after, answer_status, answer_headers, answer_body, opens, place
  )
), inserted as (
  insert into samekey.keys (
    org_id, key, fence, holder, revision, keep_until, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
    ask_after, answer_status, answer_headers, answer_body
  )
  select
    org_id, key, fence, holder, revision, now() + keep_for, state, now() + since, request_version,
    request_sha, frame_sha, principal_sha, now() + lease_ends, now() + run_ends, life, reason,
    now() + last_send, asked, not_found, now() + ask_after, answer_status, answer_headers,
    answer_body
  from offered
  order by place
  on conflict (org_id, key) do nothing
  returning org_id, key
), opened as (
  insert into samekey.open_claims (org_id, key)
  select inserted.org_id, inserted.key
  from inserted
  join offered
    on offered.org_id = inserted.org_id
    and offered.key = inserted.key
  where offered.opens
  on conflict (org_id, key) do nothing
)
select
  offered.place, now() as seen_at, inserted.key is not null as inserted, keys.fence, keys.holder,
  keys.revision, keys.keep_until, keys.state, keys.since, keys.request_version, keys.request_sha,
  keys.frame_sha, keys.principal_sha, keys.lease_ends, keys.run_ends, keys.life, keys.reason,
  keys.last_send, keys.asked, keys.not_found, keys.ask_after, keys.answer_status,
  keys.answer_headers, keys.answer_body, keys.answer_day
from offered
left join inserted
  on inserted.org_id = offered.org_id
  and inserted.key = offered.key
left join lateral (
  select
    fence, holder, revision, keep_until, state, since, request_version, request_sha, frame_sha,
    principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found, ask_after,
    answer_status, answer_headers, answer_body, answer_day
  from samekey.keys
  where keys.org_id = offered.org_id
    and keys.key = offered.key
  offset 0
) as keys
  on true
