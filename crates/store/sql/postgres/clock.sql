-- only here: the other dialect takes the time from the writer
select now() as seen_at
