select
  open_claims.org_id, open_claims.key, now() as seen_at, keys.fence,
  keys.holder, keys.revision, keys.keep_until, keys.state, keys.since, keys.request_version,
  keys.request_sha, keys.frame_sha, keys.principal_sha, keys.lease_ends, keys.run_ends, keys.life,
  keys.reason, keys.last_send, keys.asked, keys.not_found, keys.ask_after, keys.answer_status,
  keys.answer_headers, keys.answer_body, keys.answer_day, open_claims.route
from samekey.open_claims as open_claims
join lateral (
  select
    fence, holder, revision, keep_until, state, since, request_version, request_sha, frame_sha,
    principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found, ask_after,
    answer_status, answer_headers, answer_body, answer_day
  from samekey.keys
  where keys.org_id = open_claims.org_id
    and keys.key = open_claims.key
  offset 0
) as keys
  on true
where (open_claims.org_id, open_claims.key) > ($1, $2)
order by open_claims.org_id, open_claims.key
limit $3
