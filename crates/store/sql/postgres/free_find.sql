select org_id, key, revision
from samekey.keys
where state = 'free'
limit $1
