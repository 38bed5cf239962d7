with swept as (
  delete from samekey.finished as finished
  using unnest($2::bytea[]) as found (id)
  where finished.org_id = $1
    and finished.id = found.id
    and finished.finished_at <= $3
  returning finished.org_id, finished.id
), forgotten as (
  delete from samekey.attempts as attempts
  using swept
  where attempts.org_id = swept.org_id
    and attempts.id = swept.id
), settled as (
  delete from samekey.command_decisions as command_decisions
  using swept
  where command_decisions.org_id = swept.org_id
    and command_decisions.id = swept.id
)
delete from samekey.commands as commands
using swept
where commands.org_id = swept.org_id
  and commands.id = swept.id
returning commands.id
