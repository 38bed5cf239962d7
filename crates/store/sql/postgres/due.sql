select key
from samekey.open_claims
where org_id = $1
  and route = $2
  and due_at <= now()
order by due_at, key
limit $3
