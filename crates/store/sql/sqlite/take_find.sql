select
  outbox.id,
  outbox.order_key,
  outbox.fence,
  outbox.holder,
  outbox.revision,
  outbox.began,
  outbox.gives_up,
  outbox.sends,
  outbox.attempts,
  outbox.first_send,
  outbox.last_send,
  outbox.doubt,
  outbox.last,
  outbox.proof,
  outbox.asked_by,
  outbox.state,
  outbox.due,
  outbox.grounds,
  outbox.since,
  outbox.asked,
  outbox.not_found,
  outbox.reason,
  outbox.answer_status,
  outbox.answer_headers,
  outbox.answer_body
from samekey_outbox as outbox
where outbox.org_id = ?1
  and outbox.destination = ?2
  and outbox.due <= ?3
  and (
    outbox.order_key is null
    or outbox.id = coalesce(
      (
        select turn.id
        from samekey_order_turns as turn
        where turn.org_id = outbox.org_id
          and turn.destination = outbox.destination
          and turn.order_key = outbox.order_key
      ),
      (
        select ahead.id
        from samekey_order_keys as ahead
        where ahead.org_id = outbox.org_id
          and ahead.destination = outbox.destination
          and ahead.order_key = outbox.order_key
        order by ahead.id
        limit 1
      )
    )
  )
order by outbox.due, outbox.id
limit ?4
