-- only here: a file has no roles
-- The role of a service, gateway or recovery worker: it reads and writes keys and commands, and changes no table.
-- Run this as the owner of the schema after `samekey migrate`, and give the role a login of its own.
--
-- Partitions for large answers are made and dropped by the owner of the schema: let `samekey sweep`
-- run as that one. Where nobody makes them, large answers stand in the rows of their keys.
create role samekey_service;

grant usage on schema samekey to samekey_service;

grant select, insert, update, delete
on samekey.keys, samekey.open_claims, samekey.answers
to samekey_service;

-- Accounts of decisions are added, never changed.
grant select, insert on samekey.decisions to samekey_service;

-- Commands and how they ended are written once, and swept.
grant select, insert, delete
on samekey.commands, samekey.finished
to samekey_service;

grant select, insert, update, delete on samekey.outbox to samekey_service;

grant select, insert, delete
on samekey.order_keys, samekey.order_turns
to samekey_service;

-- What became of attempts, and what persons decided about commands, is added, never changed; it is swept with
-- its command.
grant select, insert, delete
on samekey.attempts, samekey.command_decisions
to samekey_service;

grant select, insert, update on samekey.meta to samekey_service;

grant select on samekey.migrations to samekey_service;
