insert into samekey_commands (
  org_id,
  id,
  destination,
  operation,
  business_ref,
  generation,
  order_key,
  key,
  request,
  enqueued_at
)
select
  ?1,
  ?2,
  ?3,
  ?4,
  ?5,
  ?6,
  ?7,
  ?8,
  ?9,
  ?10
where not exists (
  select 1
  from samekey_commands
  where org_id = ?1
    and destination = ?3
    and operation = ?4
    and business_ref = ?5
    and generation > ?6
)
on conflict do nothing
