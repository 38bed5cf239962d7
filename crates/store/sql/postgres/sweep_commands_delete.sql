with swept as (
  delete from samekey.finished
  where org_id = $1
    and id = any($2)
    and finished_at <= $3
  returning org_id, id
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
