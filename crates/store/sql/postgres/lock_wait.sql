-- only here: the other dialect has one writer
-- As lock.sql, waiting for whoever has it, as long as the lock timeout lets it.
select pg_advisory_xact_lock(hashtextextended($2, hashtextextended($1, 0))) as locked
