-- only here: the other dialect notes open claims within the statements that claim and swap
insert into samekey_open_claims (
  org_id,
  key
)
values (
  ?1,
  ?2
)
on conflict (org_id, key) do nothing
