-- only here: in the other dialect it is a part of advance_group.sql
delete from samekey_outbox
where org_id = ?1
  and id = ?2
  and holder = ?3
  and fence = ?4
  and revision = ?5
returning
  destination,
  order_key
