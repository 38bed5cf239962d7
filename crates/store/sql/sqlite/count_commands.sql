select
  destination,
  state,
  count(*)
from samekey_outbox
group by destination, state
order by destination, state
