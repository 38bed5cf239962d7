-- It leaps from organisation to organisation along the index, however many commands each has.
with recursive orgs as (
  (
    select org_id
    from samekey.outbox
    where destination = $1
      and org_id > $2
    order by org_id
    limit 1
  )
  union all
  select further.org_id
  from orgs
  cross join lateral (
    select org_id
    from samekey.outbox
    where destination = $1
      and org_id > orgs.org_id
    order by org_id
    limit 1
  ) as further
)
select orgs.org_id
from orgs
cross join lateral (
  select
  from samekey.outbox as outbox
  where outbox.org_id = orgs.org_id
    and outbox.destination = $1
    and outbox.due <= now()
    and (
      outbox.order_key is null
      or outbox.id = coalesce(
        (
          select turn.id
          from samekey.order_turns as turn
          where turn.org_id = outbox.org_id
            and turn.destination = outbox.destination
            and turn.order_key = outbox.order_key
        ),
        (
          select ahead.id
          from samekey.order_keys as ahead
          where ahead.org_id = outbox.org_id
            and ahead.destination = outbox.destination
            and ahead.order_key = outbox.order_key
          order by ahead.id
          limit 1
        )
      )
    )
  order by outbox.due
  limit 1
) as due
limit $3
