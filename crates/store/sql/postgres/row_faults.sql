-- only here: the other dialect checks rows by constraints, which cost it little
select org_id, key, state
from samekey.keys
where (org_id, key) > ($1, $2)
  and not (
    state in ('free', 'running', 'unknown', 'review', 'done', 'closed')
    and fence >= 0
    and revision >= 1
    and octet_length(holder) = 16
    and (since is null) = (state = 'free')
    and (request_version is null) = (state = 'free')
    and (request_sha is null) = (state = 'free')
    and (frame_sha is null) = (state = 'free')
    and (principal_sha is null or state <> 'free')
    and coalesce(octet_length(request_sha), 32) = 32
    and coalesce(octet_length(frame_sha), 32) = 32
    and coalesce(octet_length(principal_sha), 32) = 32
    and (lease_ends is not null) = (state = 'running')
    and (run_ends is not null) = (state = 'running')
    and coalesce(lease_ends > since, true)
    and coalesce(lease_ends <= run_ends, true)
    and (life is not null) = (state in ('unknown', 'review'))
    and (reason is not null) = (state in ('unknown', 'review'))
    and (last_send is not null) = (state = 'unknown')
    and (asked is not null) = (state = 'unknown')
    and (not_found is not null) = (state = 'unknown')
    and (ask_after is not null) = (state = 'unknown')
    and (answer_status is not null or state <> 'done')
    and (answer_status is null or state in ('done', 'unknown'))
    and coalesce(answer_status between 200 and 599, true)
    and (answer_status is not null or answer_headers is null)
    and (answer_status is not null or answer_body is null)
    and (answer_day is null or state = 'done')
    and (answer_day is null or answer_body is null)
  )
order by org_id, key
limit $3
