-- only here: the other dialect checks rows by constraints, which cost it little
select org_id, id, state
from samekey.outbox
where (org_id, id) > ($1, $2)
  and not (
    state in ('waiting', 'sending', 'unknown', 'failed', 'undecided')
    and fence >= 0
    and revision >= 1
    and octet_length(id) = 16
    and octet_length(holder) = 16
    and sends >= attempts
    and attempts >= 0
    and gives_up >= began
    and asked_by in ('key', 'reference')
    and (due is not null) = (state in ('waiting', 'sending', 'unknown'))
    and (grounds is not null) = (state in ('waiting', 'sending'))
    and coalesce(grounds in ('unrun', 'dedups', 'in-flight'), true)
    and (since is not null) = (state in ('sending', 'failed', 'undecided'))
    and (asked is not null) = (state = 'unknown')
    and (not_found is not null) = (state = 'unknown')
    and (reason is not null) = (state in ('failed', 'undecided'))
    and (proof is not null) = (answer_status is not null)
    and coalesce(proof in ('executed', 'refused'), true)
    and coalesce(answer_status between 200 and 599, true)
    and (answer_status is not null or answer_headers is null)
    and (answer_status is not null or answer_body is null)
  )
order by org_id, id
limit $3
