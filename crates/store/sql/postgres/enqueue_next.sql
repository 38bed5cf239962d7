-- only here: in the other dialect it is several statements in the transaction of the one writer.
-- After a failed command: it leaves the inbox if nobody has written to it in between, and only then the next
-- one is inserted.
with followed as (
  delete from samekey.outbox
  where org_id = $1
    and id = $33
    and fence = $34
    and holder = $35
    and revision = $36
  returning
    org_id, id, destination, order_key, fence, holder, revision, began, gives_up, sends, attempts,
    first_send, last_send, doubt, last, proof, asked_by, state, since, reason, answer_status,
    answer_headers, answer_body
), stored as (
  insert into samekey.finished (
    org_id, id, fence, holder, revision, began, gives_up, sends, attempts, first_send, last_send,
    doubt, last, proof, asked_by, state, since, reason, answer_status, answer_headers, answer_body
  )
  select
    org_id, id, fence, holder, revision, began, gives_up, sends, attempts, first_send, last_send,
    doubt, last, proof, asked_by, state, since, reason, answer_status, answer_headers, answer_body
  from followed
), unordered as (
  delete from samekey.order_keys as order_keys
  using followed
  where order_keys.org_id = followed.org_id
    and order_keys.destination = followed.destination
    and order_keys.order_key = followed.order_key
    and order_keys.id = followed.id
), turned as (
  delete from samekey.order_turns as order_turns
  using followed
  where order_turns.org_id = followed.org_id
    and order_turns.destination = followed.destination
    and order_turns.order_key = followed.order_key
    and order_turns.id = followed.id
), inserted as (
  insert into samekey.commands (
    org_id, id, destination, operation, business_ref, generation, order_key, key, request
  )
  select
    $1, $2, $3, $4, $5, $6, $7, $8, $9
  from followed
  returning org_id, id, destination, order_key
), queued as (
  insert into samekey.outbox (
    org_id, id, destination, order_key, fence, holder, revision, began, gives_up, sends, attempts,
    first_send, last_send, doubt, last, proof, asked_by, state, due, grounds, since, asked,
    not_found, reason, answer_status, answer_headers, answer_body
  )
  select
    org_id, id, destination, order_key, $10, $11, $12, now() + $13, now() + $14, $15, $16,
    now() + $17, now() + $18, $19, $20, $21, $22, $23, now() + $24, $25, now() + $26, $27, $28, $29, $30,
    $31, $32
  from inserted
), ordered as (
  insert into samekey.order_keys (org_id, destination, order_key, id)
  select org_id, destination, order_key, id
  from inserted
  where order_key is not null
)
select id
from inserted
