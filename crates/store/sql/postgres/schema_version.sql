select number
from samekey.migrations
order by number
