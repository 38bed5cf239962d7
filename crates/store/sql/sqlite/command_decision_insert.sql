insert into samekey_command_decisions (
  org_id,
  id,
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
