-- It leaps from organisation to organisation along the index, however many records each has.
with recursive orgs (org_id, place) as (
  select
    min(org_id),
    1
  from samekey_open_claims
  where route = ?1
    and org_id > ?2
  union all
  select
    (
      select min(further.org_id)
      from samekey_open_claims as further
      where further.route = ?1
        and further.org_id > orgs.org_id
    ),
    orgs.place + 1
  from orgs
  where orgs.place < ?3
    and orgs.org_id is not null
)
select org_id
from orgs
where org_id is not null
  and place <= ?3
order by place
