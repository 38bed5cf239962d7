-- only here: only PostgreSQL has partitions for large answers
insert into samekey.answers (answer_day, org_id, key, body)
values ($3, $1, $2, $4)
on conflict (org_id, key, answer_day) do update
set body = excluded.body
