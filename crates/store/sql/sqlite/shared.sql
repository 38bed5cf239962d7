select bytes
from samekey_meta
where name = ?1
