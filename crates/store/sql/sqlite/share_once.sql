insert into samekey_meta (
  name,
  bytes
)
values (
  ?1,
  ?2
)
on conflict (name) do nothing
