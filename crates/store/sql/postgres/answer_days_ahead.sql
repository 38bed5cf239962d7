-- only here: only PostgreSQL has partitions for large answers
select
  to_char(day, '"answers_"YYYYMMDD') as name,
  to_char(day, 'YYYY-MM-DD') as first_day,
  to_char(day + interval '1 day', 'YYYY-MM-DD') as next_day,
  day::date as day
from generate_series(
  date_trunc('day', now() at time zone 'UTC'),
  date_trunc('day', now() at time zone 'UTC') + make_interval(days => $1),
  interval '1 day'
) as day
order by day
