-- only here: only PostgreSQL has partitions for large answers
select relation.relname::text as name, to_date(right(relation.relname, 8), 'YYYYMMDD') as day
from pg_catalog.pg_inherits as child
join pg_catalog.pg_class as relation
  on relation.oid = child.inhrelid
where child.inhparent = 'samekey.answers'::regclass
  and relation.relname ~ '^answers_[0-9]{8}$'
order by day
