-- only here: only PostgreSQL has partitions for large answers
delete from samekey.answers
where org_id = $1
  and key = $2
  and answer_day = $3
  and not exists (
    select
    from samekey.keys
    where org_id = $1
      and key = $2
      and answer_day = $3
  )
