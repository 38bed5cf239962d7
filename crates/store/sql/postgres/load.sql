select
  now() as seen_at, fence, holder, revision, keep_until, state, since,
  request_version, request_sha, frame_sha, principal_sha, lease_ends, run_ends, life, reason,
  last_send, asked, not_found, ask_after, answer_status, answer_headers, answer_body, answer_day
from (
  select
) as always
left join samekey.keys
  on org_id = $1
  and key = $2
