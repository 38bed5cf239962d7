-- Each row is looked up once and removed where it was found: it is locked, so it stays there.
delete from samekey.keys as keys
where keys.org_id = $1
  and keys.ctid = any (
    array(
      select doomed.ctid
      from samekey.keys as doomed
      join unnest($2::text[], $3::bigint[]) as found (key, revision)
        on found.key = doomed.key
        and found.revision = doomed.revision
      where doomed.org_id = $1
        and doomed.keep_until <= $4
      for update of doomed skip locked
    )
  )
returning keys.key
