select kind, number, fence, began, noted, came_to, status
from samekey.attempts
where org_id = $1
  and id = $2
order by noted, fence, number, kind
limit $3
