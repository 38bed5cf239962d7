select
  open_claim.route,
  held.state,
  count(*)
from samekey_open_claims as open_claim
join samekey_keys as held
  on held.org_id = open_claim.org_id
  and held.key = open_claim.key
group by open_claim.route, held.state
order by open_claim.route, held.state
