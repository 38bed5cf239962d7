-- only here: in the other dialect no handler can end a transaction
-- Inserts an open record that waits for a person, with its intent. Where the key has a row, nothing is written.
with inserted as (
  insert into samekey.keys (
    org_id, key, fence, holder, revision, keep_until, state, since, request_version, request_sha,
    frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
    ask_after, answer_status, answer_headers, answer_body
  )
  values (
    $1, $2, $3, $4, $5, now() + $6, $7, now() + $8, $9, $10, $11, $12, now() + $13, now() + $14, $15,
    $16, now() + $17, $18, $19, now() + $20, $21, $22, $23
  )
  on conflict (org_id, key) do nothing
  returning org_id, key
)
insert into samekey.open_claims (org_id, key, route)
select inserted.org_id, inserted.key, $24
from inserted
on conflict (org_id, key) do nothing
returning org_id
