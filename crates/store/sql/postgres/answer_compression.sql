alter table samekey.answers
alter column body
set compression lz4
