select
  org_id,
  key,
  keep_until,
  revision
from samekey_keys
where keep_until <= ?1
  and (keep_until, org_id, key) > (?2, ?3, ?4)
  and state in ('free', 'done', 'closed')
order by keep_until, org_id, key
limit ?5
