select
  org_id,
  id
from samekey_finished
where finished_at <= ?1
order by finished_at
limit ?2
