-- It leaps from organisation to organisation along the index, however many records each has.
with recursive orgs as (
  (
    select org_id, 1::bigint as place
    from samekey.open_claims
    where route = $1
      and org_id > $2
      and $3::bigint >= 1
    order by org_id
    limit 1
  )
  union all
  select further.org_id, orgs.place + 1
  from orgs
  cross join lateral (
    select org_id
    from samekey.open_claims
    where route = $1
      and org_id > orgs.org_id
    order by org_id
    limit 1
  ) as further
  where orgs.place < $3
)
select org_id
from orgs
order by place
