-- Commands that have to be executed once at a counterparty: what they ask for, written once, in the same
-- transaction as the business row that they belong to.
create table samekey.commands (
  org_id text collate "C" not null,
  id bytea not null,
  destination text collate "C" not null,
  operation text collate "C" not null,
  business_ref text collate "C" not null,
  generation integer not null,
  order_key text collate "C",
  key bytea not null,
  request bytea not null,
  enqueued_at timestamptz not null default now(),
  constraint commands_pkey primary key (org_id, id),
  -- What keeps two commands of one business action apart, whoever enqueues them.
  constraint commands_action unique (org_id, destination, operation, business_ref, generation)
);

-- Where they stand that are not finished: they go on by themselves when they are due, or wait for a person and
-- are never due. Every write moves what is due, so that no update stays on its page, and the table has to be
-- vacuumed often while it is small.
create table samekey.outbox (
  org_id text collate "C" not null,
  id bytea not null,
  fence bigint not null,
  revision bigint not null,
  began timestamptz not null,
  gives_up timestamptz not null,
  first_send timestamptz,
  last_send timestamptz,
  due timestamptz,
  since timestamptz,
  sends integer not null,
  attempts integer not null,
  asked integer,
  not_found integer,
  answer_status smallint,
  destination text collate "C" not null,
  order_key text collate "C",
  doubt text collate "C",
  last text collate "C",
  proof text collate "C",
  asked_by text collate "C" not null,
  state text collate "C" not null,
  grounds text collate "C",
  reason text collate "C",
  holder bytea not null,
  answer_headers bytea,
  answer_body bytea,
  constraint outbox_pkey primary key (org_id, id),
  -- What goes on by itself is due at some time; else nobody would ever look at it again.
  constraint outbox_open_is_due check (
    (due is not null) = (state in ('waiting', 'sending', 'unknown'))
  )
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- What workers walk along: by destination and organisation, the longest due first.
create index outbox_due on samekey.outbox (destination, org_id, due, id);

-- The commands with an order key that are not finished, so that those without one pay nothing for it.
create table samekey.order_keys (
  org_id text collate "C" not null,
  destination text collate "C" not null,
  order_key text collate "C" not null,
  id bytea not null,
  constraint order_keys_pkey primary key (org_id, destination, order_key, id)
);

-- Whose turn it is among them, from when it is taken first until it is finished.
create table samekey.order_turns (
  org_id text collate "C" not null,
  destination text collate "C" not null,
  order_key text collate "C" not null,
  id bytea not null,
  constraint order_turns_pkey primary key (org_id, destination, order_key)
);

-- How commands ended: written once, never changed, and swept after their retention.
create table samekey.finished (
  org_id text collate "C" not null,
  id bytea not null,
  fence bigint not null,
  revision bigint not null,
  finished_at timestamptz not null default now(),
  began timestamptz not null,
  gives_up timestamptz not null,
  first_send timestamptz,
  last_send timestamptz,
  since timestamptz not null,
  sends integer not null,
  attempts integer not null,
  answer_status smallint,
  doubt text collate "C",
  last text collate "C",
  proof text collate "C",
  asked_by text collate "C" not null,
  state text collate "C" not null,
  reason text collate "C",
  holder bytea not null,
  answer_headers bytea,
  answer_body bytea,
  constraint finished_pkey primary key (org_id, id)
);

create index finished_finished_at on samekey.finished (finished_at);

-- What became of each attempt and question. Rows are only ever added.
create table samekey.attempts (
  org_id text collate "C" not null,
  id bytea not null,
  noted timestamptz not null default now(),
  fence bigint not null,
  number integer not null,
  kind text collate "C" not null,
  began timestamptz not null,
  came_to text collate "C" not null,
  status smallint,
  constraint attempts_pkey primary key (org_id, id, noted, fence, number, kind)
);

-- What persons decided about commands. Rows are only ever added.
create table samekey.command_decisions (
  org_id text collate "C" not null,
  id bytea not null,
  decided_at timestamptz not null default now(),
  seen_fence bigint not null,
  decision text collate "C" not null,
  person text not null,
  note text not null,
  evidence text not null,
  constraint command_decisions_pkey primary key (org_id, id, decided_at, seen_fence)
);
