select
  open_claim.org_id,
  open_claim.key,
  held.fence,
  held.holder,
  held.revision,
  held.keep_until,
  held.state,
  held.since,
  held.request_version,
  held.request_sha,
  held.frame_sha,
  held.principal_sha,
  held.lease_ends,
  held.run_ends,
  held.life,
  held.reason,
  held.last_send,
  held.asked,
  held.not_found,
  held.ask_after,
  held.answer_status,
  held.answer_headers,
  held.answer_body,
  open_claim.route
from samekey_open_claims as open_claim
join samekey_keys as held
  on held.org_id = open_claim.org_id
  and held.key = open_claim.key
where (open_claim.org_id, open_claim.key) > (?1, ?2)
order by open_claim.org_id, open_claim.key
limit ?3
