-- only here: the other dialect does not compress
alter table samekey.answers
alter column body
set compression lz4
