select
  now() as seen_at, false as inserted, id, destination, operation, business_ref, generation,
  order_key, key, request
from samekey.commands
where org_id = $1
  and id = $2
