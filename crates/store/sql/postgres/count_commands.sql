select destination, state, count(*) as commands
from samekey.outbox
group by destination, state
order by destination, state
