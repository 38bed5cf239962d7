insert into samekey.command_decisions (
  org_id, id, seen_fence, decision, person, note, evidence
)
values ($1, $2, $3, $4, $5, $6, $7)
