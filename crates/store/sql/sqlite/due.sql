select key
from samekey_open_claims
where org_id = ?1
  and route = ?2
  and due_at <= ?3
order by due_at, key
limit ?4
