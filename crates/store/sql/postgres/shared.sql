select bytes
from samekey.meta
where name = $1
