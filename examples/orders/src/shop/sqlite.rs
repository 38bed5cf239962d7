//! Orders on SQLite, in the same file as their keys.

use super::{NewOrder, Order, created, new_id, ordered_before, try_later};
use crate::delivery::{self, BOOKS_PAGE, Books, DESTINATION, Paying};
use crate::payments::Terms;
use http_body_util::Full;
use rusqlite::{OptionalExtension, params};
use samekey::core::key::Org;
use samekey::store::sqlite::outbox::WriteTx;
use samekey::store::sqlite::{AtomicEnd, SqliteLedger};
use samekey::store::{Kind, StoreError};
use samekey::{BoxError, Caller, Engine, Request, Response, Route};
use samekey_client::{Courier, Prepared};

const TABLE: &str = "
    create table if not exists orders (
        id text not null primary key,
        org_id text not null,
        cart text,
        amount integer not null check (amount > 0),
        created_at text not null default current_timestamp,
        unique (org_id, cart)
    ) strict";
/// Its rows outlive the commands that they are about.
const PAYMENTS_TABLE: &str = "
    create table if not exists order_payments (
        org_id text not null,
        order_id text not null,
        state text,
        payment_id text,
        primary key (org_id, order_id)
    ) strict;
    create index if not exists order_payments_open
        on order_payments (org_id, order_id) where state is null";
const INSERT_PAYMENT: &str = "insert into order_payments (org_id, order_id) values (?1, ?2)";
const OPEN: &str = "
    select org_id, order_id
    from order_payments
    where state is null and (org_id, order_id) > (?1, ?2)
    order by org_id, order_id
    limit ?3";
const ENTER: &str = "
    update order_payments
    set state = ?3, payment_id = ?4
    where org_id = ?1 and order_id = ?2 and state is null";
const INSERT: &str = "
    insert into orders (id, org_id, cart, amount)
    values (?1, ?2, ?3, ?4)
    on conflict do nothing";
const READ: &str = "
    select orders.amount, paid.state, paid.payment_id
    from orders
    left join order_payments as paid on paid.org_id = orders.org_id and paid.order_id = orders.id
    where orders.org_id = ?1 and orders.id = ?2";

#[derive(Clone)]
pub struct Orders {
    pub engine: Engine<SqliteLedger>,
    pub courier: Courier<SqliteLedger>,
}

impl Orders {
    pub async fn open(address: &str, terms: &Terms) -> Result<Orders, StoreError> {
        SqliteLedger::migrate(address)?;
        let ledger = SqliteLedger::open(address)?;
        let tables = format!("{TABLE}; {PAYMENTS_TABLE}; {}", crate::payments::SQLITE_TABLE);
        let made =
            ledger.write(move |connection| AtomicEnd::Commit(connection.execute_batch(&tables)));
        made.await?.map_err(|_| {
            StoreError::new(Kind::Other, "the tables of orders and payments could not be created")
        })?;
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
        let handler = move |tx: &WriteTx<'_>, _: &Request| {
            let placed = Order { id: id.clone(), amount: order.amount, payment: None };
            let rows = tx.connection().prepare_cached(INSERT)?.execute(params![
                placed.id,
                org.as_str(),
                order.cart,
                order.amount
            ])?;
            if rows == 0 {
                return ordered_before(&order);
            }
            if let Some(payment) = &payment {
                // In the order's own transaction: neither of the two is ever there without the other.
                let mut pays = tx.connection().prepare_cached(INSERT_PAYMENT)?;
                pays.execute(params![org.as_str(), placed.id])?;
                let Prepared { command, delivery } = payment;
                payment.placed(tx.enqueue(command, delivery)?)?;
            }
            created(&placed)
        };
        let response = self.engine.atomic_tx(route, caller, request.map(Full::new), handler).await;
        if pays {
            self.courier.wake(DESTINATION);
        }
        response
    }

    pub async fn read(&self, org: &Org, id: &str) -> Result<Option<Order>, BoxError> {
        let (owner, wanted) = (org.clone(), id.to_owned());
        let row = self
            .engine
            .store()
            .read(move |connection| {
                connection
                    .prepare_cached(READ)?
                    .query_row(params![owner.as_str(), wanted], |row| {
                        Ok((row.get::<_, i64>(0)?, Paying::kept(row.get(1)?, row.get(2)?)))
                    })
                    .optional()
            })
            .await??;
        let Some((amount, kept)) = row else { return Ok(None) };
        let payment = match kept {
            Some(kept) => Some(kept),
            None => self.entered(org, id).await?,
        };
        Ok(Some(Order { id: id.to_owned(), amount, payment }))
    }
}

impl Books for Orders {
    async fn open_after(
        &self,
        (org, order_id): (String, String),
    ) -> Result<Vec<(String, String)>, BoxError> {
        let page = self.engine.store().read(move |connection| {
            let mut open = connection.prepare_cached(OPEN)?;
            let rows = open.query_map(params![org, order_id, BOOKS_PAGE], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        Ok(page.await??)
    }

    async fn entered(&self, org: &Org, order_id: &str) -> Result<Option<Paying>, BoxError> {
        let paying = delivery::paying(self.engine.store(), org, order_id).await?;
        if let Some(paying) = paying.clone().filter(|paying| paying.is_final) {
            let (org, order_id) = (org.as_str().to_owned(), order_id.to_owned());
            let entered = self.engine.store().write(move |connection| {
                let values = params![org, order_id, paying.state, paying.id];
                AtomicEnd::Commit(connection.execute(ENTER, values))
            });
            entered.await??;
        }
        Ok(paying)
    }
}
