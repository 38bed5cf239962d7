-- only here: the other dialect loads the whole row at once
-- Whether a key has a row. It is sent behind lock.sql, as a statement of its own: it has to see what the last
-- holder of the lock committed.
select true as there
from samekey.keys
where org_id = $1
  and key = $2
