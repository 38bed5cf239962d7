insert into samekey.meta (name, bytes)
values ($1, $2)
on conflict (name) do update
set bytes = excluded.bytes
