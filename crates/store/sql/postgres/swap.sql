update samekey.keys
set
  fence = $6,
  holder = $7,
  revision = $8,
  keep_until = $9,
  state = $10,
  since = $11,
  request_version = $12,
  request_sha = $13,
  frame_sha = $14,
  principal_sha = $15,
  lease_ends = $16,
  run_ends = $17,
  life = $18,
  reason = $19,
  last_send = $20,
  asked = $21,
  not_found = $22,
  ask_after = $23,
  answer_status = $24,
  answer_headers = $25,
  answer_body = $26,
  answer_day = $27
where org_id = $1
  and key = $2
  and fence = $3
  and holder = $4
  and revision = $5
returning revision
