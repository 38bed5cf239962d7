-- It leaps from organisation to organisation along the index, however many commands each has.
with recursive orgs (org_id) as (
  select min(org_id)
  from samekey_outbox
  where destination = ?1
    and org_id > ?2
  union all
  select (
    select min(further.org_id)
    from samekey_outbox as further
    where further.destination = ?1
      and further.org_id > orgs.org_id
  )
  from orgs
  where orgs.org_id is not null
)
select orgs.org_id
from orgs
where exists (
  select 1
  from samekey_outbox as outbox
  where outbox.org_id = orgs.org_id
    and outbox.destination = ?1
    and outbox.due <= ?3
    and (
      outbox.order_key is null
      or outbox.id = coalesce(
        (
          select turn.id
          from samekey_order_turns as turn
          where turn.org_id = outbox.org_id
            and turn.destination = outbox.destination
            and turn.order_key = outbox.order_key
        ),
        (
          select ahead.id
          from samekey_order_keys as ahead
          where ahead.org_id = outbox.org_id
            and ahead.destination = outbox.destination
            and ahead.order_key = outbox.order_key
          order by ahead.id
          limit 1
        )
      )
    )
)
limit ?4
