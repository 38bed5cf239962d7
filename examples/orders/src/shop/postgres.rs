//! Orders on PostgreSQL.

use super::{NewOrder, Order, created, new_id, ordered_before, try_later};
use crate::delivery::{self, DESTINATION};
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
const INSERT: &str = "
    insert into orders (id, org_id, cart, amount)
    values ($1, $2, $3, $4)
    on conflict do nothing";
const READ: &str = "select amount from orders where org_id = $1 and id = $2";

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
        let tables = format!("{TABLE}; {}", crate::payments::POSTGRES_TABLE);
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
        let payment = delivery::paying(self.engine.store(), org, id).await?;
        Ok(Some(Order { id: id.to_owned(), amount: row.try_get("amount")?, payment }))
    }
}

fn failed(sentence: &str) -> StoreError {
    StoreError::new(Kind::Other, sentence)
}
