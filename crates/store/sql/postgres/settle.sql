-- only here: the other dialect settles by swap, in a transaction that nobody else can end
with settled as (
  update samekey.keys
  set
    revision = $7,
    keep_until = $8,
    state = $9,
    since = $10,
    request_version = $11,
    request_sha = $12,
    frame_sha = $13,
    principal_sha = $14,
    lease_ends = null,
    run_ends = null,
    answer_status = $15,
    answer_headers = $16,
    answer_body = $17,
    answer_day = $18
  where org_id = $1
    and key = $2
    and fence = $3
    and holder = $4
    and revision = $5
    and now() = $6
  returning revision
)
select 1 / count(revision) as written
from settled
