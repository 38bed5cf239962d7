-- only here: only PostgreSQL has partitions for large answers
select exists (
  select
  from samekey.keys
  where keep_until >= $1
    and keep_until < $2
    and answer_day is not null
) as used
