-- only here: the other dialect asks for it among the facts of its server
select count(*)
from sqlite_schema
where type = 'table'
  and name = 'samekey_migrations'
