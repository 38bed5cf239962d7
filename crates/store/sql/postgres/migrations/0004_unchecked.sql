-- only here: the other dialect compiles its constraints into the prepared statement.
--
-- The server reads and plans a check constraint anew for every statement that writes to its table. This one, the
-- last, was a tenth of what the server spends on a keyed command. What it said is held by whoever
-- writes, by whoever reads, and by row_faults.sql.
alter table samekey.keys drop constraint keys_running_is_leased;
