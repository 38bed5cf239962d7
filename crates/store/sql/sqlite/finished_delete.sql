-- only here: in the other dialect it is a part of sweep_commands_delete.sql
delete from samekey_finished
where org_id = ?1
  and id = ?2
