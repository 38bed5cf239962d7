-- only here: in the other dialect it costs next to nothing to show a whole row.
-- What a replay needs of a finished row. Joins and columns that it does not need cost as much as finding it.
select
  now() as seen_at, fence, holder, revision, keep_until, since, request_version, request_sha,
  frame_sha, principal_sha, answer_status, answer_headers, answer_body, answer_day
from samekey.keys
where org_id = $1
  and key = $2
  and state = 'done'
