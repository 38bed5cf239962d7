-- only here: the other dialect settles by swap, in a transaction that nobody else can end
-- Inserts a key's row with its answer. It fails where there is a row by now, and in another transaction than the one
-- that locked the key, which is known by its time.
insert into samekey.keys (
  org_id, key, fence, holder, revision, keep_until, state, since, request_version, request_sha,
  frame_sha, principal_sha, answer_status, answer_headers, answer_body, answer_day
)
values (
  $1, $2, $3 / (now() = $5)::integer, $4, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17
)
