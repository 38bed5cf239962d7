-- only here: the other dialect looks them up one by one, without a way to a server in between
--
-- One look-up an id: with all ids as one condition, a plan may walk along all that the organisation ever had.
select
  now() as seen_at, false as inserted, commands.id, commands.destination, commands.operation,
  commands.business_ref, commands.generation, commands.order_key, commands.key, commands.request
from unnest($2::bytea[]) as wanted (id)
cross join lateral (
  select
    id, destination, operation, business_ref, generation, order_key, key, request
  from samekey.commands
  where org_id = $1
    and id = wanted.id
  limit 1
) as commands
