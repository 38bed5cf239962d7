-- Where the key has a row, nothing is written, and load.sql is asked next, in the same transaction.
--
-- The lock timeout covers this statement alone: values are worked out before a row is inserted, which is
-- where it may wait, and what is returned is worked out behind it. No state is called as a lock timeout is.
--
-- A begin is sent in front of this without waiting for its answer. Where the server refused it, this
-- would be a transaction of its own, and leave a claim that nobody settles. It fails instead: then
-- its own time is the time of its transaction.
insert into samekey.keys (
  org_id, key, fence, holder, revision, keep_until, state, since, request_version, request_sha,
  frame_sha, principal_sha, lease_ends, run_ends, life, reason, last_send, asked, not_found,
  ask_after, answer_status, answer_headers, answer_body
)
values (
  $1, $2, $3 / (now() <> statement_timestamp())::integer, $4, $5, now() + $6,
  nullif($7, set_config('lock_timeout', $24, true)), now() + $8, $9, $10, $11, $12, now() + $13,
  now() + $14, $15, $16, now() + $17, $18, $19, now() + $20, $21, $22, $23
)
on conflict (org_id, key) do nothing
returning
  now() as seen_at, current_setting('transaction_isolation') as isolation,
  current_setting('synchronous_commit') as synchronous_commit,
  set_config('lock_timeout', $25, true) as lock_timeout
