-- Commands that have to be executed once at a counterparty: what they ask for, written once, in the same
-- transaction as the business row that they belong to. Times are microseconds since the Unix epoch.
create table samekey_commands (
  org_id text not null,
  id blob not null,
  destination text not null,
  operation text not null,
  business_ref text not null,
  generation integer not null,
  order_key text,
  key blob not null,
  request blob not null,
  enqueued_at integer not null,
  constraint samekey_commands_pkey primary key (org_id, id),
  -- What keeps two commands of one business action apart, whoever enqueues them.
  constraint samekey_commands_action unique (
    org_id, destination, operation, business_ref, generation
  ),
  constraint samekey_commands_org_id_length check (octet_length(org_id) between 1 and 255),
  constraint samekey_commands_id_length check (length(id) = 16),
  constraint samekey_commands_key_length check (length(key) = 16),
  constraint samekey_commands_generation_range check (generation >= 1)
) strict;

-- Where they stand that are not finished: they go on by themselves when they are due, or wait for a person and
-- are never due.
create table samekey_outbox (
  org_id text not null,
  id blob not null,
  destination text not null,
  order_key text,
  fence integer not null,
  holder blob not null,
  revision integer not null,
  began integer not null,
  gives_up integer not null,
  sends integer not null,
  attempts integer not null,
  first_send integer,
  last_send integer,
  doubt text,
  last text,
  proof text,
  asked_by text not null,
  state text not null,
  due integer,
  grounds text,
  since integer,
  asked integer,
  not_found integer,
  reason text,
  answer_status integer,
  answer_headers blob,
  answer_body blob,
  constraint samekey_outbox_pkey primary key (org_id, id),
  constraint samekey_outbox_fence_range check (fence >= 0),
  constraint samekey_outbox_holder_length check (length(holder) = 16),
  constraint samekey_outbox_revision_range check (revision >= 1),
  constraint samekey_outbox_sends_range check (sends >= 0 and attempts >= 0),
  constraint samekey_outbox_state_known check (
    state in ('waiting', 'sending', 'unknown', 'failed', 'undecided')
  ),
  -- What goes on by itself is due at some time; else nobody would ever look at it again.
  constraint samekey_outbox_open_is_due check (
    (due is not null) = (state in ('waiting', 'sending', 'unknown'))
  ),
  constraint samekey_outbox_grounds_to_send check (
    (grounds is not null) = (state in ('waiting', 'sending'))
    and (grounds is null or grounds in ('unrun', 'dedups', 'in-flight'))
  ),
  constraint samekey_outbox_since_when_known check (
    (since is not null) = (state in ('sending', 'failed', 'undecided'))
  ),
  constraint samekey_outbox_questions_while_unknown check (
    (asked is not null) = (state = 'unknown')
    and (not_found is not null) = (state = 'unknown')
  ),
  constraint samekey_outbox_reason_in_the_inbox check (
    (reason is not null) = (state in ('failed', 'undecided'))
  ),
  constraint samekey_outbox_asked_by_known check (asked_by in ('key', 'reference')),
  constraint samekey_outbox_proof_has_an_answer check (
    (proof is not null) = (answer_status is not null)
    and (proof is null or proof in ('executed', 'refused'))
  ),
  constraint samekey_outbox_answer_status_range check (
    answer_status is null or answer_status between 200 and 599
  ),
  constraint samekey_outbox_answer_with_status check (
    answer_status is not null or (answer_headers is null and answer_body is null)
  ),
  constraint samekey_outbox_command foreign key (org_id, id)
    references samekey_commands (org_id, id)
    on delete restrict
) strict;

-- What workers walk along: by destination and organisation, the longest due first.
create index samekey_outbox_due
on samekey_outbox (destination, org_id, due, id);

-- The commands with an order key that are not finished, so that those without one pay nothing for it.
create table samekey_order_keys (
  org_id text not null,
  destination text not null,
  order_key text not null,
  id blob not null,
  constraint samekey_order_keys_pkey primary key (org_id, destination, order_key, id)
) strict, without rowid;

-- Whose turn it is among them, from when it is taken first until it is finished.
create table samekey_order_turns (
  org_id text not null,
  destination text not null,
  order_key text not null,
  id blob not null,
  constraint samekey_order_turns_pkey primary key (org_id, destination, order_key)
) strict, without rowid;

-- How commands ended: written once, never changed, and swept after their retention.
create table samekey_finished (
  org_id text not null,
  id blob not null,
  finished_at integer not null,
  fence integer not null,
  holder blob not null,
  revision integer not null,
  began integer not null,
  gives_up integer not null,
  sends integer not null,
  attempts integer not null,
  first_send integer,
  last_send integer,
  doubt text,
  last text,
  proof text,
  asked_by text not null,
  state text not null,
  since integer not null,
  reason text,
  answer_status integer,
  answer_headers blob,
  answer_body blob,
  constraint samekey_finished_pkey primary key (org_id, id),
  constraint samekey_finished_state_known check (
    state in ('succeeded', 'refused', 'failed', 'cancelled', 'resolved')
  ),
  constraint samekey_finished_command foreign key (org_id, id)
    references samekey_commands (org_id, id)
    on delete restrict
) strict;

create index samekey_finished_finished_at
on samekey_finished (finished_at);

-- What became of each attempt and question. Rows are only ever added.
create table samekey_attempts (
  org_id text not null,
  id blob not null,
  noted integer not null,
  fence integer not null,
  number integer not null,
  kind text not null,
  began integer not null,
  came_to text not null,
  status integer,
  constraint samekey_attempts_pkey primary key (org_id, id, noted, fence, number, kind)
) strict;

-- What persons decided about commands. Rows are only ever added.
create table samekey_command_decisions (
  org_id text not null,
  id blob not null,
  decided_at integer not null,
  seen_fence integer not null,
  decision text not null,
  person text not null,
  note text not null,
  evidence text not null,
  constraint samekey_command_decisions_pkey primary key (org_id, id, decided_at, seen_fence)
) strict;
