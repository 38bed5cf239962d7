-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays
with offered as (
  select
    org_id, key, fence, holder, revision, keep_for, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
    ask_after, answer_status, answer_headers, answer_body, route, outbound_key, due, request, place
  from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::interval[], $7::text[],
    $8::interval[], $9::smallint[], $10::bytea[], $11::bytea[], $12::bytea[], $13::interval[],
    $14::interval[], $15::bigint[], $16::text[], $17::interval[], $18::integer[], $19::integer[],
    $20::interval[], $21::smallint[], $22::bytea[], $23::bytea[], $24::text[], $25::bytea[],
    $26::interval[], $27::bytea[]
  ) with ordinality as offered (
    org_id, key, fence, holder, revision, keep_for, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
    ask_after, answer_status, answer_headers, answer_body, route, outbound_key, due, request, place
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
  returning org_id, key, state
), opened as (
  insert into samekey.open_claims (org_id, key, route, outbound_key, due_at, request)
  select
    inserted.org_id, inserted.key, offered.route, offered.outbound_key, now() + offered.due,
    offered.request
  from inserted
  join offered
    on offered.org_id = inserted.org_id
    and offered.key = inserted.key
  where inserted.state in ('running', 'unknown', 'review')
  on conflict (org_id, key) do update
  set
    route = excluded.route,
    outbound_key = excluded.outbound_key,
    due_at = excluded.due_at,
    request = excluded.request
)
select
  org_id, key, now() as seen_at, true as inserted, null::bigint as fence, null::bytea as holder,
  null::bigint as revision, null::timestamptz as keep_until, null::text as state,
  null::timestamptz as since, null::smallint as request_version, null::bytea as request_sha,
  null::bytea as frame_sha, null::bytea as principal_sha, null::timestamptz as lease_ends,
  null::timestamptz as run_ends, null::bigint as life, null::text as reason,
  null::timestamptz as last_send, null::integer as asked, null::integer as not_found,
  null::timestamptz as ask_after, null::smallint as answer_status,
  null::bytea as answer_headers, null::bytea as answer_body, null::date as answer_day
from inserted
union all
select
  offered.org_id, offered.key, now(), false, keys.fence, keys.holder, keys.revision,
  keys.keep_until, keys.state, keys.since, keys.request_version, keys.request_sha,
  keys.frame_sha, keys.principal_sha, keys.lease_ends, keys.run_ends, keys.life, keys.reason,
  keys.last_send, keys.asked, keys.not_found, keys.ask_after, keys.answer_status,
  keys.answer_headers, keys.answer_body, keys.answer_day
from offered
cross join lateral (
  select
    fence, holder, revision, keep_until, state, since, request_version, request_sha, frame_sha,
    principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found, ask_after,
    answer_status, answer_headers, answer_body, answer_day
  from samekey.keys
  where keys.org_id = offered.org_id
    and keys.key = offered.key
  offset 0
) as keys
