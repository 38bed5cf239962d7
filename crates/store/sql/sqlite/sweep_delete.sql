delete from samekey_keys
where org_id = ?1
  and key = ?2
  and revision = ?3
  and state in ('free', 'done', 'closed')
