-- The last of four: what lies beside a command goes first.
delete from samekey_commands
where org_id = ?1
  and id = ?2
