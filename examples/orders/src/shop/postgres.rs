//! Orders on PostgreSQL.

use super::{NewOrder, Order, created, new_id, ordered_before, try_later};
use crate::delivery::{self, BOOKS_PAGE, Books, DESTINATION, Paying};
use crate::payments::Terms;
use http_body_util::Full;
use samekey::core::key::Org;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::{Kind, StoreError};
use samekey::{BoxError, Caller, Engine, Request, Response, Route};
use samekey_client::{Courier, Prepared};
use std::sync::Arc;

/// A second process that starts in the same moment finds the table there already.
const TABLE: &str = "
    create table if not exists orders (
        id text not null constraint orders_pkey primary key,
        org_id text not null,
        cart text,
        amount bigint not null constraint orders_amount_positive check (amount > 0),
        created_at timestamptz not null default now(),
        constraint orders_cart_once unique (org_id, cart)
    )";
/// Its rows outlive the commands that they are about.
const PAYMENTS_TABLE: &str = "
    create table if not exists order_payments (
        org_id text not null,
        order_id text not null,
        state text,
        payment_id text,
        constraint order_payments_pkey primary key (org_id, order_id)
    );
    create index if not exists order_payments_open
        on order_payments (org_id, order_id) where state is null";
const INSERT_PAYMENT: &str = "insert into order_payments (org_id, order_id) values ($1, $2)";
const OPEN: &str = "
    select org_id, order_id
    from order_payments
    where state is null and (org_id, order_id) > ($1, $2)
    order by org_id, order_id
    limit $3";
const ENTER: &str = "
    update order_payments
    set state = $3, payment_id = $4
    where org_id = $1 and order_id = $2 and state is null";
const INSERT: &str = "
    insert into orders (id, org_id, cart, amount)
    values ($1, $2, $3, $4)
    on conflict do nothing";
const READ: &str = "
    select orders.amount, paid.state, paid.payment_id
    from orders
    left join order_payments as paid on paid.org_id = orders.org_id and paid.order_id = orders.id
    where orders.org_id = $1 and orders.id = $2";

#[derive(Clone)]
pub struct Orders {
    pub engine: Engine<PostgresLedger>,
    pub courier: Courier<PostgresLedger>,
}

impl Orders {
    pub async fn open(url: &str, terms: &Terms) -> Result<Orders, StoreError> {
        let pool = postgres::connect(url)?;
        postgres::migrate(&pool).await?;
        let ledger = PostgresLedger::open(pool.clone(), postgres::Options::default()).await?;
        let client = pool.get().await.map_err(|_| failed("no connection became free"))?;
        let tables = format!("{TABLE}; {PAYMENTS_TABLE}; {}", crate::payments::POSTGRES_TABLE);
        for attempt in 0..3 {
            match client.batch_execute(&tables).await {
                Ok(()) => break,
                // Two processes that create one table at once may still meet; the loser looks again.
                Err(_) if attempt < 2 => {}
                Err(_) => {
                    return Err(failed("the tables of orders and payments could not be created"));
                }
            }
        }
        drop(client);
        let engine = Engine::new(ledger);
        let setup = terms.courier().map_err(|error| delivery::not_opened(&error))?;
        let courier = Courier::open(engine.store_handle(), setup).await;
        let courier = courier.map_err(|error| delivery::not_opened(&error))?;
        Ok(Orders { engine, courier })
    }

    pub async fn create(
        &self,
        route: &Route,
        caller: &Caller,
        request: Request,
        order: NewOrder,
    ) -> Response {
        let org = caller.org.clone();
        let id = new_id(caller, &request, &order);
        let payment = match order.pay {
            false => None,
            true => match delivery::prepare(&self.courier, &org, &id, order.amount).await {
                Ok(payment) => Some(payment),
                Err(error) => {
                    tracing::warn!(%error, "the payment of an order could not be prepared");
                    return try_later();
                }
            },
        };
        let pays = payment.is_some();
        let written = Arc::new((org, id, order, payment));
        let handler = move |tx: postgres::Tx, _: Request| {
            let written = Arc::clone(&written);
            async move {
                let (org, id, order, payment) = &*written;
                let placed = Order { id: id.clone(), amount: order.amount, payment: None };
                let insert = tx.prepare_cached(INSERT).await?;
                let rows = tx
                    .execute(&insert, &[&placed.id, &org.as_str(), &order.cart, &order.amount])
                    .await?;
                if rows == 0 {
                    return ordered_before(order);
                }
                if let Some(payment) = payment {
                    // In the order's own transaction: neither of the two is ever there without the other.
                    let pays = tx.prepare_cached(INSERT_PAYMENT).await?;
                    tx.execute(&pays, &[&org.as_str(), &placed.id]).await?;
                    let Prepared { command, delivery } = payment;
                    payment.placed(postgres::outbox::enqueue(&**tx, command, delivery).await?)?;
                }
                created(&placed)
            }
        };
        let response = self.engine.atomic(route, caller, request.map(Full::new), handler).await;
        if pays {
            self.courier.wake(DESTINATION);
        }
        response
    }

    pub async fn read(&self, org: &Org, id: &str) -> Result<Option<Order>, BoxError> {
        let client = self.engine.store().pool().get().await?;
        let read = client.prepare_cached(READ).await?;
        let Some(row) = client.query_opt(&read, &[&org.as_str(), &id]).await? else {
            return Ok(None);
        };
        // Another look needs another connection, and the pool may have one only.
        drop(client);
        let payment = match Paying::kept(row.try_get("state")?, row.try_get("payment_id")?) {
            Some(kept) => Some(kept),
            None => self.entered(org, id).await?,
        };
        Ok(Some(Order { id: id.to_owned(), amount: row.try_get("amount")?, payment }))
    }
}

impl Books for Orders {
    async fn open_after(
        &self,
        (org, order_id): (String, String),
    ) -> Result<Vec<(String, String)>, BoxError> {
        let client = self.engine.store().pool().get().await?;
        let open = client.prepare_cached(OPEN).await?;
        let rows = client.query(&open, &[&org, &order_id, &BOOKS_PAGE]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    async fn entered(&self, org: &Org, order_id: &str) -> Result<Option<Paying>, BoxError> {
        let paying = delivery::paying(self.engine.store(), org, order_id).await?;
        if let Some(paying) = paying.as_ref().filter(|paying| paying.is_final) {
            let client = self.engine.store().pool().get().await?;
            let enter = client.prepare_cached(ENTER).await?;
            let state: &str = &paying.state;
            client.execute(&enter, &[&org.as_str(), &order_id, &state, &paying.id]).await?;
        }
        Ok(paying)
    }
}

fn failed(sentence: &str) -> StoreError {
    StoreError::new(Kind::Other, sentence)
}
