insert into samekey.attempts (org_id, id, kind, number, fence, began, came_to, status)
select $1, $2, $3, $4, $5, $6, $7, $8
from samekey.commands
where org_id = $1
  and id = $2
on conflict (org_id, id, noted, fence, number, kind) do nothing
