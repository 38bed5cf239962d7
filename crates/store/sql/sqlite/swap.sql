update samekey_keys
set
  fence = ?3,
  holder = ?4,
  revision = ?5,
  keep_until = ?6,
  state = ?7,
  since = ?8,
  request_version = ?9,
  request_sha = ?10,
  frame_sha = ?11,
  principal_sha = ?12,
  lease_ends = ?13,
  run_ends = ?14,
  life = ?15,
  reason = ?16,
  last_send = ?17,
  asked = ?18,
  not_found = ?19,
  ask_after = ?20,
  answer_status = ?21,
  answer_headers = ?22,
  answer_body = ?23
where org_id = ?1
  and key = ?2
  and holder = ?24
  and fence = ?25
  and revision = ?26
