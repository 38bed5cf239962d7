update samekey_open_claims
set due_at = ?3
where org_id = ?1
  and key = ?2
  and due_at is not ?3
