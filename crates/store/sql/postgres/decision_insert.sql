insert into samekey.decisions (org_id, key, seen_fence, decision, person, note, evidence)
values ($1, $2, $3, $4, $5, $6, $7)
