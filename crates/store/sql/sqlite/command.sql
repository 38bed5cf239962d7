select
  id,
  destination,
  operation,
  business_ref,
  generation,
  order_key,
  key,
  request
from samekey_commands
where org_id = ?1
  and id = ?2
