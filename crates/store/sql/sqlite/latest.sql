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
  and destination = ?2
  and operation = ?3
  and business_ref = ?4
order by generation desc
limit 1
