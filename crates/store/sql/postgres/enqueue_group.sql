-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays
with offered as (
  select
    org_id, id, destination, operation, business_ref, generation, order_key, key, request, fence,
    holder, revision, began, gives_up, sends, attempts, first_send, last_send, doubt, last, proof,
    asked_by, state, due, grounds, since, asked, not_found, reason, answer_status, answer_headers,
    answer_body
  from unnest(
    $1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::text[],
    $8::bytea[], $9::bytea[], $10::bigint[], $11::bytea[], $12::bigint[], $13::interval[],
    $14::interval[], $15::integer[], $16::integer[], $17::interval[], $18::interval[], $19::text[],
    $20::text[], $21::text[], $22::text[], $23::text[], $24::interval[], $25::text[],
    $26::interval[], $27::integer[], $28::integer[], $29::text[], $30::smallint[], $31::bytea[],
    $32::bytea[]
  ) as offered (
    org_id, id, destination, operation, business_ref, generation, order_key, key, request, fence,
    holder, revision, began, gives_up, sends, attempts, first_send, last_send, doubt, last, proof,
    asked_by, state, due, grounds, since, asked, not_found, reason, answer_status, answer_headers,
    answer_body
  )
), inserted as (
  insert into samekey.commands (
    org_id, id, destination, operation, business_ref, generation, order_key, key, request
  )
  select
    offered.org_id, offered.id, offered.destination, offered.operation, offered.business_ref,
    offered.generation, offered.order_key, offered.key, offered.request
  from offered
  where not exists (
    select
    from samekey.commands as later
    where later.org_id = offered.org_id
      and later.destination = offered.destination
      and later.operation = offered.operation
      and later.business_ref = offered.business_ref
      and later.generation > offered.generation
  )
  on conflict do nothing
  returning org_id, id, destination, order_key
), queued as (
  insert into samekey.outbox (
    org_id, id, destination, order_key, fence, holder, revision, began, gives_up, sends, attempts,
    first_send, last_send, doubt, last, proof, asked_by, state, due, grounds, since, asked,
    not_found, reason, answer_status, answer_headers, answer_body
  )
  select
    inserted.org_id, inserted.id, inserted.destination, inserted.order_key, offered.fence,
    offered.holder, offered.revision, now() + offered.began, now() + offered.gives_up,
    offered.sends, offered.attempts, now() + offered.first_send, now() + offered.last_send,
    offered.doubt, offered.last, offered.proof, offered.asked_by, offered.state,
    now() + offered.due, offered.grounds, now() + offered.since, offered.asked, offered.not_found,
    offered.reason, offered.answer_status, offered.answer_headers, offered.answer_body
  from inserted
  join offered
    on offered.org_id = inserted.org_id
    and offered.id = inserted.id
), ordered as (
  insert into samekey.order_keys (org_id, destination, order_key, id)
  select org_id, destination, order_key, id
  from inserted
  where order_key is not null
)
select org_id, id
from inserted
