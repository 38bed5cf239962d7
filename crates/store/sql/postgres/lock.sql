-- only here: the other dialect has one writer
-- Locks a key until the transaction ends, if nobody else has it, and tells what the transaction is like.
--
-- Whoever has the lock may insert the row of a key that has none. The lock only keeps commands from running beside
-- one another; what keeps a second row out is the primary key. Two keys that meet in one number wait for each other.
select
  now() as seen_at, current_setting('transaction_isolation') as isolation,
  current_setting('synchronous_commit') as synchronous_commit,
  pg_try_advisory_xact_lock(hashtextextended($2, hashtextextended($1, 0))) as locked,
  current_setting('transaction_read_only') as read_only
