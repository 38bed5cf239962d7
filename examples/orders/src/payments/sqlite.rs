//! The book of payments on SQLite, in the same file as their keys.

use super::{Book, Payment};
use rusqlite::{OptionalExtension, params};
use samekey::BoxError;
use samekey::core::key::Org;
use samekey::store::sqlite::{AtomicEnd, SqliteLedger};

pub const TABLE: &str = "
    create table if not exists payments (
        id text not null primary key,
        org_id text not null,
        order_id text not null,
        amount integer not null check (amount > 0),
        created_at text not null default current_timestamp
    ) strict";
const INSERT: &str = "
    insert into payments (id, org_id, order_id, amount)
    values (?1, ?2, ?3, ?4)
    on conflict (id) do update
    set id = excluded.id
    where payments.org_id = excluded.org_id
      and payments.order_id = excluded.order_id
      and payments.amount = excluded.amount";
const READ: &str = "select order_id, amount from payments where org_id = ?1 and id = ?2";

impl Book for SqliteLedger {
    async fn keep(&self, org: &Org, payment: &Payment) -> Result<bool, BoxError> {
        let (org, payment) = (org.clone(), payment.clone());
        let kept = self.write(move |connection| {
            let row = params![payment.id, org.as_str(), payment.order_id, payment.amount];
            let kept = connection.prepare_cached(INSERT).and_then(|mut insert| insert.execute(row));
            AtomicEnd::Commit(kept)
        });
        Ok(kept.await?? == 1)
    }

    async fn find(&self, org: &Org, id: &str) -> Result<Option<Payment>, BoxError> {
        let (org, id) = (org.clone(), id.to_owned());
        let found = self.read(move |connection| {
            connection
                .prepare_cached(READ)?
                .query_row(params![org.as_str(), id], |row| {
                    let (order_id, amount) = (row.get(0)?, row.get(1)?);
                    Ok(Payment { id: id.clone(), order_id, amount })
                })
                .optional()
        });
        Ok(found.await??)
    }
}
