select
  now() as seen_at, commands.org_id, commands.id, commands.destination, commands.operation,
  commands.business_ref, commands.generation, outbox.fence, outbox.holder, outbox.revision,
  outbox.began, outbox.gives_up, outbox.sends, outbox.attempts, outbox.first_send, outbox.last_send,
  outbox.doubt, outbox.last, outbox.proof, outbox.asked_by, outbox.state, outbox.due,
  outbox.grounds, outbox.since, outbox.asked, outbox.not_found, outbox.reason, outbox.answer_status,
  outbox.answer_headers, outbox.answer_body
from samekey.outbox as outbox
join samekey.commands as commands
  on commands.org_id = outbox.org_id
  and commands.id = outbox.id
where (outbox.org_id, outbox.id) > ($1, $2)
  and ($3::text is null or outbox.org_id = $3)
  and ($4::text is null or commands.destination = $4)
  and ($5::text[] is null or outbox.state = any($5))
order by outbox.org_id, outbox.id
limit $6
