-- swap.sql for the most usual swap: a claim of this very transaction gets its answer. It names no indexed
-- column, since SQLite would take an index entry out and put it back even if nothing changed.
update samekey_keys
set
  revision = ?3,
  state = ?4,
  since = ?5,
  lease_ends = null,
  run_ends = null,
  answer_status = ?6,
  answer_headers = ?7,
  answer_body = ?8
where org_id = ?1
  and key = ?2
  and holder = ?9
  and fence = ?10
  and revision = ?11
