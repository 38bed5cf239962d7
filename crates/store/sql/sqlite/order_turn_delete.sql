-- only here: in the other dialect it is a part of advance_group.sql
delete from samekey_order_turns
where org_id = ?1
  and destination = ?2
  and order_key = ?3
  and id = ?4
