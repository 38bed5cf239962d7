-- The states are one text, each between two commas.
select
  one.org_id,
  one.id,
  command.destination,
  command.operation,
  command.business_ref,
  command.generation,
  one.fence,
  one.holder,
  one.revision,
  one.began,
  one.gives_up,
  one.sends,
  one.attempts,
  one.first_send,
  one.last_send,
  one.doubt,
  one.last,
  one.proof,
  one.asked_by,
  one.state,
  null,
  null,
  one.since,
  null,
  null,
  one.reason,
  one.answer_status,
  one.answer_headers,
  one.answer_body
from samekey_finished as one
join samekey_commands as command
  on command.org_id = one.org_id
  and command.id = one.id
where (one.org_id, one.id) > (?1, ?2)
  and (?3 is null or one.org_id = ?3)
  and (?4 is null or command.destination = ?4)
  and (?5 is null or instr(?5, ',' || one.state || ',') > 0)
order by one.org_id, one.id
limit ?6
