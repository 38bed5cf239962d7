select
  1,
  fence,
  holder,
  revision,
  began,
  gives_up,
  sends,
  attempts,
  first_send,
  last_send,
  doubt,
  last,
  proof,
  asked_by,
  state,
  due,
  grounds,
  since,
  asked,
  not_found,
  reason,
  answer_status,
  answer_headers,
  answer_body
from samekey_outbox
where org_id = ?1
  and id = ?2
union all
select
  0,
  fence,
  holder,
  revision,
  began,
  gives_up,
  sends,
  attempts,
  first_send,
  last_send,
  doubt,
  last,
  proof,
  asked_by,
  state,
  null,
  null,
  since,
  null,
  null,
  reason,
  answer_status,
  answer_headers,
  answer_body
from samekey_finished
where org_id = ?1
  and id = ?2
