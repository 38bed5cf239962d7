select now() as seen_at, org_id, key, revision
from samekey.keys
where keep_until <= now()
  and state in ('free', 'done', 'closed')
order by keep_until
limit $1
