select
  now() as seen_at, false as inserted, commands.id, commands.destination, commands.operation,
  commands.business_ref, commands.generation, commands.order_key, commands.key, commands.request,
  stands.fence, stands.holder, stands.revision, stands.began, stands.gives_up, stands.sends,
  stands.attempts, stands.first_send, stands.last_send, stands.doubt, stands.last, stands.proof,
  stands.asked_by, stands.state, stands.due, stands.grounds, stands.since, stands.asked,
  stands.not_found, stands.reason, stands.answer_status, stands.answer_headers, stands.answer_body
from samekey.commands as commands
cross join lateral (
  select
    fence, holder, revision, began, gives_up, sends, attempts, first_send, last_send, doubt, last,
    proof, asked_by, state, due, grounds, since, asked, not_found, reason, answer_status,
    answer_headers, answer_body
  from samekey.outbox
  where org_id = commands.org_id
    and id = commands.id
  union all
  select
    fence, holder, revision, began, gives_up, sends, attempts, first_send, last_send, doubt, last,
    proof, asked_by, state, null::timestamptz, null::text, since, null::integer, null::integer,
    reason, answer_status, answer_headers, answer_body
  from samekey.finished
  where org_id = commands.org_id
    and id = commands.id
) as stands
where commands.org_id = $1
  and commands.destination = $2
  and commands.operation = $3
  and commands.business_ref = $4
order by commands.generation desc
limit 1
