with inserted as (
  insert into samekey.keys (
    org_id, key, fence, holder, revision, keep_until, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
    ask_after, answer_status, answer_headers, answer_body
  )
  values (
    $1, $2, $3, $4, $5, now() + $6, $7, now() + $8, $9, $10,
    $11, $12, now() + $13, now() + $14, $15, $16, now() + $17, $18, $19,
    now() + $20, $21, $22, $23
  )
  on conflict (org_id, key) do nothing
  returning fence
)
select
  now() as seen_at, true as inserted, fence, null::bytea as holder, null::bigint as revision,
  null::timestamptz as keep_until, null::text as state, null::timestamptz as since,
  null::smallint as request_version, null::bytea as request_sha, null::bytea as frame_sha,
  null::bytea as principal_sha, null::timestamptz as lease_ends, null::timestamptz as run_ends,
  null::bigint as life, null::text as reason, null::timestamptz as last_send,
  null::integer as asked, null::integer as not_found, null::timestamptz as ask_after,
  null::smallint as answer_status, null::bytea as answer_headers, null::bytea as answer_body,
  null::date as answer_day
from inserted
union all
select
  now(), false, fence, holder, revision, keep_until, state, since, request_version, request_sha,
  frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
  ask_after, answer_status, answer_headers, answer_body, answer_day
from samekey.keys
where org_id = $1
  and key = $2
  and not exists (
    select
    from inserted
  )
