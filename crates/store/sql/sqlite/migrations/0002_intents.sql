-- Beside each open record: who claimed it and what its counterparty was to be told, so that recovery can
-- ask. What was claimed before this migration has no route, and waits for the next claim or a person.
alter table samekey_open_claims
add column route text not null default '';

alter table samekey_open_claims
add column outbound_key blob
constraint samekey_open_claims_outbound_key_length check (
  outbound_key is null or length(outbound_key) = 16
);

alter table samekey_open_claims
add column due_at integer;

alter table samekey_open_claims
add column request blob;

-- What recovery walks along, route by route and organisation by organisation. It is as small as its table.
create index samekey_open_claims_due
on samekey_open_claims (route, org_id, due_at);

-- What persons decided about keys whose outcome nobody could tell. Rows are only ever added.
create table samekey_decisions (
  org_id text not null,
  key text not null,
  decided_at integer not null,
  seen_fence integer not null,
  decision text not null,
  person text not null,
  note text not null,
  evidence text not null,
  constraint samekey_decisions_pkey primary key (org_id, key, decided_at, seen_fence)
) strict;

-- What all processes share: secrets that are made at the first start.
create table samekey_meta (
  name text not null,
  bytes blob not null,
  constraint samekey_meta_pkey primary key (name)
) strict, without rowid;
