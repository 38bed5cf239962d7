with doomed as (
  select keys.key
  from samekey.keys as keys
  join unnest($2::text[], $3::bigint[]) as found (key, revision)
    on found.key = keys.key
    and found.revision = keys.revision
  where keys.org_id = $1
    and keys.keep_until <= $4
  for update of keys skip locked
)
delete from samekey.keys as keys
using doomed
where keys.org_id = $1
  and keys.key = doomed.key
returning keys.key
