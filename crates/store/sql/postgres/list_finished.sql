select
  now() as seen_at, commands.org_id, commands.id, commands.destination, commands.operation,
  commands.business_ref, commands.generation, finished.fence, finished.holder, finished.revision,
  finished.began, finished.gives_up, finished.sends, finished.attempts, finished.first_send,
  finished.last_send, finished.doubt, finished.last, finished.proof, finished.asked_by,
  finished.state, null::timestamptz, null::text, finished.since, null::integer, null::integer,
  finished.reason, finished.answer_status, finished.answer_headers, finished.answer_body
from samekey.finished as finished
join samekey.commands as commands
  on commands.org_id = finished.org_id
  and commands.id = finished.id
where (finished.org_id, finished.id) > ($1, $2)
  and ($3::text is null or finished.org_id = $3)
  and ($4::text is null or commands.destination = $4)
  and ($5::text[] is null or finished.state = any($5))
order by finished.org_id, finished.id
limit $6
