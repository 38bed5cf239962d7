select
  org_id,
  key,
  revision
from samekey_keys
where state = 'free'
limit ?1
