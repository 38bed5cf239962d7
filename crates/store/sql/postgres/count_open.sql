select open_claims.route, keys.state, count(*) as records
from samekey.open_claims as open_claims
cross join lateral (
  select state
  from samekey.keys
  where keys.org_id = open_claims.org_id
    and keys.key = open_claims.key
  offset 0
) as keys
group by open_claims.route, keys.state
order by open_claims.route, keys.state
