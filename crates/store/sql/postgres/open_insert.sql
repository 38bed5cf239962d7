-- For a key that is taken again; a new claim has its intent inserted by claim_group.sql.
insert into samekey.open_claims (org_id, key, route, outbound_key, due_at, request)
values ($1, $2, $3, $4, $5, $6)
on conflict (org_id, key) do update
set
  route = excluded.route,
  outbound_key = excluded.outbound_key,
  due_at = excluded.due_at,
  request = excluded.request
