insert into samekey_decisions (
  org_id,
  key,
  decided_at,
  seen_fence,
  decision,
  person,
  note,
  evidence
)
values (
  ?1,
  ?2,
  ?3,
  ?4,
  ?5,
  ?6,
  ?7,
  ?8
)
