-- only here: only PostgreSQL has partitions for large answers
select body
from samekey.answers
where org_id = $1
  and key = $2
  and answer_day = $3
