-- Takes the turns of these order keys that nobody has, in their order; says which commands have theirs.
with wanted as (
  select order_key, id
  from unnest($3::text[], $4::bytea[]) as wanted (order_key, id)
), begun as (
  insert into samekey.order_turns (org_id, destination, order_key, id)
  select $1, $2, order_key, id
  from wanted
  on conflict (org_id, destination, order_key) do nothing
  returning id
)
select id
from begun
union all
select turns.id
from wanted
join samekey.order_turns as turns
  on turns.org_id = $1
  and turns.destination = $2
  and turns.order_key = wanted.order_key
  and turns.id = wanted.id
