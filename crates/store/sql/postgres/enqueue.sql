with inserted as (
  insert into samekey.commands (
    org_id, id, destination, operation, business_ref, generation, order_key, key, request
  )
  select
    $1, $2, $3, $4, $5, $6, $7, $8, $9
  where not exists (
    select
    from samekey.commands
    where org_id = $1
      and destination = $3
      and operation = $4
      and business_ref = $5
      and generation > $6
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
select
  now() as seen_at, true as inserted, null::bytea as id, null::text as destination,
  null::text as operation, null::text as business_ref, null::integer as generation, null::text as order_key,
  null::bytea as key, null::bytea as request, null::bigint as fence, null::bytea as holder,
  null::bigint as revision, null::timestamptz as began, null::timestamptz as gives_up,
  null::integer as sends, null::integer as attempts, null::timestamptz as first_send,
  null::timestamptz as last_send, null::text as doubt, null::text as last, null::text as proof, null::text as asked_by,
  null::text as state, null::timestamptz as due, null::text as grounds, null::timestamptz as since,
  null::integer as asked, null::integer as not_found, null::text as reason,
  null::smallint as answer_status, null::bytea as answer_headers, null::bytea as answer_body
from inserted
union all (
  select
    now(), false, commands.id, commands.destination, commands.operation, commands.business_ref,
    commands.generation, commands.order_key, commands.key, commands.request, stands.fence,
    stands.holder, stands.revision, stands.began, stands.gives_up, stands.sends, stands.attempts,
    stands.first_send, stands.last_send, stands.doubt, stands.last, stands.proof, stands.asked_by,
    stands.state, stands.due, stands.grounds, stands.since, stands.asked, stands.not_found,
    stands.reason, stands.answer_status, stands.answer_headers, stands.answer_body
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
    and commands.destination = $3
    and commands.operation = $4
    and commands.business_ref = $5
    and not exists (
      select
      from inserted
    )
  order by commands.generation desc
  limit 1
)
