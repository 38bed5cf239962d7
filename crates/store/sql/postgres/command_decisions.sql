select decided_at, seen_fence, decision, person, note, evidence
from samekey.command_decisions
where org_id = $1
  and id = $2
order by decided_at, seen_fence
limit $3
