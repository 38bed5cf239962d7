-- only here: the other dialect has one writer, which groups by a transaction and needs no arrays
with wanted as (
  select
    org_id, id, seen_fence, seen_holder, seen_revision, finishes, fence, holder, revision, began,
    gives_up, sends, attempts, first_send, last_send, doubt, last, proof, asked_by, state, due,
    grounds, since, asked, not_found, reason, answer_status, answer_headers, answer_body, note_kind,
    note_number, note_fence, note_began, note_came_to, note_status, place
  from unnest(
    $1::text[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[], $6::boolean[], $7::bigint[],
    $8::bytea[], $9::bigint[], $10::timestamptz[], $11::timestamptz[], $12::integer[],
    $13::integer[], $14::timestamptz[], $15::timestamptz[], $16::text[], $17::text[], $18::text[],
    $19::text[], $20::text[], $21::timestamptz[], $22::text[], $23::timestamptz[], $24::integer[],
    $25::integer[], $26::text[], $27::smallint[], $28::bytea[], $29::bytea[], $30::text[],
    $31::integer[], $32::bigint[], $33::timestamptz[], $34::text[], $35::smallint[]
  ) with ordinality as wanted (
    org_id, id, seen_fence, seen_holder, seen_revision, finishes, fence, holder, revision, began,
    gives_up, sends, attempts, first_send, last_send, doubt, last, proof, asked_by, state, due,
    grounds, since, asked, not_found, reason, answer_status, answer_headers, answer_body, note_kind,
    note_number, note_fence, note_began, note_came_to, note_status, place
  )
), moved as (
  update samekey.outbox as outbox
  set
    fence = wanted.fence,
    holder = wanted.holder,
    revision = wanted.revision,
    began = wanted.began,
    gives_up = wanted.gives_up,
    sends = wanted.sends,
    attempts = wanted.attempts,
    first_send = wanted.first_send,
    last_send = wanted.last_send,
    doubt = wanted.doubt,
    last = wanted.last,
    proof = wanted.proof,
    asked_by = wanted.asked_by,
    state = wanted.state,
    due = wanted.due,
    grounds = wanted.grounds,
    since = wanted.since,
    asked = wanted.asked,
    not_found = wanted.not_found,
    reason = wanted.reason,
    answer_status = wanted.answer_status,
    answer_headers = wanted.answer_headers,
    answer_body = wanted.answer_body
  from wanted
  where outbox.org_id = wanted.org_id
    and outbox.id = wanted.id
    and outbox.fence = wanted.seen_fence
    and outbox.holder = wanted.seen_holder
    and outbox.revision = wanted.seen_revision
    and not wanted.finishes
  returning wanted.place
), ended as (
  delete from samekey.outbox as outbox
  using wanted
  where outbox.org_id = wanted.org_id
    and outbox.id = wanted.id
    and outbox.fence = wanted.seen_fence
    and outbox.holder = wanted.seen_holder
    and outbox.revision = wanted.seen_revision
    and wanted.finishes
  returning wanted.place, outbox.org_id, outbox.id, outbox.destination, outbox.order_key
), unordered as (
  delete from samekey.order_keys as order_keys
  using ended
  where order_keys.org_id = ended.org_id
    and order_keys.destination = ended.destination
    and order_keys.order_key = ended.order_key
    and order_keys.id = ended.id
), turned as (
  delete from samekey.order_turns as order_turns
  using ended
  where order_turns.org_id = ended.org_id
    and order_turns.destination = ended.destination
    and order_turns.order_key = ended.order_key
    and order_turns.id = ended.id
), stored as (
  insert into samekey.finished (
    org_id, id, fence, holder, revision, began, gives_up, sends, attempts, first_send, last_send,
    doubt, last, proof, asked_by, state, since, reason, answer_status, answer_headers, answer_body
  )
  select
    wanted.org_id, wanted.id, wanted.fence, wanted.holder, wanted.revision, wanted.began,
    wanted.gives_up, wanted.sends, wanted.attempts, wanted.first_send, wanted.last_send,
    wanted.doubt, wanted.last, wanted.proof, wanted.asked_by, wanted.state, wanted.since,
    wanted.reason, wanted.answer_status, wanted.answer_headers, wanted.answer_body
  from ended
  join wanted
    on wanted.place = ended.place
), written as (
  select place
  from moved
  union all
  select place
  from ended
), noted as (
  insert into samekey.attempts (
    org_id, id, kind, number, fence, began, came_to, status
  )
  select
    wanted.org_id, wanted.id, wanted.note_kind, wanted.note_number, wanted.note_fence,
    wanted.note_began, wanted.note_came_to, wanted.note_status
  from written
  join wanted
    on wanted.place = written.place
  where wanted.note_kind is not null
  on conflict (org_id, id, noted, fence, number, kind) do nothing
)
select place
from written
