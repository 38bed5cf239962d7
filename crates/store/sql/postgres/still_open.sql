select 1 / (now() = $1)::integer as still_open
