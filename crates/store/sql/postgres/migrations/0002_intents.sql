-- Beside each open record: who claimed it and what its counterparty was to be told, so that recovery can
-- ask. What was claimed before this migration has no route, and waits for the next claim or a person.
alter table samekey.open_claims
add column route text collate "C" not null default '',
add column outbound_key bytea,
add column due_at timestamptz,
add column request bytea;

-- What recovery walks along, route by route and organisation by organisation. It is as small as its table.
create index open_claims_due on samekey.open_claims (route, org_id, due_at);

-- What persons decided about keys whose outcome nobody could tell. Rows are only ever added.
create table samekey.decisions (
  org_id text collate "C" not null,
  key text collate "C" not null,
  decided_at timestamptz not null default now(),
  seen_fence bigint not null,
  decision text collate "C" not null,
  person text not null,
  note text not null,
  evidence text not null,
  constraint decisions_pkey primary key (org_id, key, decided_at, seen_fence)
);
