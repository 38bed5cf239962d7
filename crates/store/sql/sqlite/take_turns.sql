-- Takes the turn of an order key if nobody has it.
insert into samekey_order_turns (
  org_id,
  destination,
  order_key,
  id
)
values (
  ?1,
  ?2,
  ?3,
  ?4
)
on conflict (org_id, destination, order_key) do nothing
