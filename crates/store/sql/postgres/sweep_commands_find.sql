select now() as seen_at, org_id, id
from samekey.finished
where finished_at <= now() - $1::interval
order by finished_at
limit $2
