-- only here: the other dialect notes open claims within the statements that claim and swap
delete from samekey_open_claims
where org_id = ?1
  and key = ?2
