-- only here: the other dialect has a library in place of a server
select
  current_setting('server_version_num')::integer as server_version,
  pg_catalog.pg_is_in_recovery() as in_recovery,
  current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('default_transaction_isolation') as isolation,
  current_setting('default_transaction_read_only') as read_only,
  current_setting('lock_timeout') as lock_timeout,
  exists (
    select
    from pg_catalog.pg_tables
    where schemaname = 'samekey'
      and tablename = 'migrations'
  ) as has_schema
