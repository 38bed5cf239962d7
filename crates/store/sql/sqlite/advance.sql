-- only here: the other dialect has advance_group.sql
update samekey_outbox
set
  fence = ?3,
  holder = ?4,
  revision = ?5,
  began = ?6,
  gives_up = ?7,
  sends = ?8,
  attempts = ?9,
  first_send = ?10,
  last_send = ?11,
  doubt = ?12,
  last = ?13,
  proof = ?14,
  asked_by = ?15,
  state = ?16,
  due = ?17,
  grounds = ?18,
  since = ?19,
  asked = ?20,
  not_found = ?21,
  reason = ?22,
  answer_status = ?23,
  answer_headers = ?24,
  answer_body = ?25
where org_id = ?1
  and id = ?2
  and holder = ?26
  and fence = ?27
  and revision = ?28
