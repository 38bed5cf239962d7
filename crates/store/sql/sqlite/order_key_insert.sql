-- only here: in the other dialect it is a part of enqueue.sql
insert into samekey_order_keys (
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
