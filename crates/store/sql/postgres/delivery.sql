select
  now() as seen_at, true as is_hot, fence, holder, revision, began, gives_up, sends, attempts,
  first_send, last_send, doubt, last, proof, asked_by, state, due, grounds, since, asked, not_found,
  reason, answer_status, answer_headers, answer_body
from samekey.outbox
where org_id = $1
  and id = $2
union all
select
  now(), false, fence, holder, revision, began, gives_up, sends, attempts, first_send, last_send,
  doubt, last, proof, asked_by, state, null::timestamptz, null::text, since, null::integer,
  null::integer, reason, answer_status, answer_headers, answer_body
from samekey.finished
where org_id = $1
  and id = $2
