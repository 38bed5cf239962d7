select number
from samekey_migrations
order by number
