delete from samekey.open_claims
where org_id = $1
  and key = $2
