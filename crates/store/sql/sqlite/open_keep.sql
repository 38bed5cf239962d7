-- only here: in the other dialect no atomic command commits an open record
insert into samekey_open_claims (
  org_id,
  key
)
values (
  ?1,
  ?2
)
on conflict (org_id, key) do nothing
