//! The book of payments on PostgreSQL.

use super::{Book, Payment};
use samekey::BoxError;
use samekey::core::key::Org;
use samekey::store::postgres::PostgresLedger;

/// A second process that starts in the same moment finds the table there already.
pub const TABLE: &str = "
    create table if not exists payments (
        id text not null constraint payments_pkey primary key,
        org_id text not null,
        order_id text not null,
        amount bigint not null constraint payments_amount_positive check (amount > 0),
        created_at timestamptz not null default now()
    )";
const INSERT: &str = "
    insert into payments (id, org_id, order_id, amount)
    values ($1, $2, $3, $4)
    on conflict (id) do update
    set id = excluded.id
    where payments.org_id = excluded.org_id
      and payments.order_id = excluded.order_id
      and payments.amount = excluded.amount";
const READ: &str = "select order_id, amount from payments where org_id = $1 and id = $2";

impl Book for PostgresLedger {
    async fn keep(&self, org: &Org, payment: &Payment) -> Result<bool, BoxError> {
        let client = self.pool().get().await?;
        let insert = client.prepare_cached(INSERT).await?;
        let kept = client
            .execute(&insert, &[&payment.id, &org.as_str(), &payment.order_id, &payment.amount])
            .await?;
        Ok(kept == 1)
    }

    async fn find(&self, org: &Org, id: &str) -> Result<Option<Payment>, BoxError> {
        let client = self.pool().get().await?;
        let read = client.prepare_cached(READ).await?;
        let Some(row) = client.query_opt(&read, &[&org.as_str(), &id]).await? else {
            return Ok(None);
        };
        let (order_id, amount) = (row.try_get("order_id")?, row.try_get("amount")?);
        Ok(Some(Payment { id: id.to_owned(), order_id, amount }))
    }
}
