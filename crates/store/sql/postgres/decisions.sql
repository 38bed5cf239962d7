select decided_at, seen_fence, decision, person, note, evidence
from samekey.decisions
where org_id = $1
  and key = $2
order by decided_at, seen_fence
limit $3
