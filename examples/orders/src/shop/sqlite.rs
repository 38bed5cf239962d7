//! Orders on SQLite, in the same file as their keys.

use super::{NewOrder, Order, created, ordered_before};
use http_body_util::Full;
use rusqlite::{Connection, OptionalExtension, params};
use samekey::core::key::Org;
use samekey::store::sqlite::{AtomicEnd, SqliteLedger};
use samekey::store::{Kind, StoreError};
use samekey::{BoxError, Caller, Engine, Request, Response, Route};
use uuid::Uuid;

const TABLE: &str = "
    create table if not exists orders (
        id text not null primary key,
        org_id text not null,
        cart text,
        amount integer not null check (amount > 0),
        created_at text not null default current_timestamp,
        unique (org_id, cart)
    ) strict";
const INSERT: &str = "
    insert into orders (id, org_id, cart, amount)
    values (?1, ?2, ?3, ?4)
    on conflict (org_id, cart) do nothing";
const READ: &str = "select amount from orders where org_id = ?1 and id = ?2";

#[derive(Clone)]
pub struct Orders {
    pub engine: Engine<SqliteLedger>,
}

impl Orders {
    pub async fn open(address: &str) -> Result<Orders, StoreError> {
        SqliteLedger::migrate(address)?;
        let ledger = SqliteLedger::open(address)?;
        let tables = format!("{TABLE}; {}", crate::payments::SQLITE_TABLE);
        let made =
            ledger.write(move |connection| AtomicEnd::Commit(connection.execute_batch(&tables)));
        made.await?.map_err(|_| {
            StoreError::new(Kind::Other, "the tables of orders and payments could not be created")
        })?;
        Ok(Orders { engine: Engine::new(ledger) })
    }

    pub async fn create(
        &self,
        route: &Route,
        caller: &Caller,
        request: Request,
        order: NewOrder,
    ) -> Response {
        let org = caller.org.clone();
        let handler = move |connection: &Connection, _: &Request| {
            let placed = Order { id: Uuid::now_v7().to_string(), amount: order.amount };
            let rows = connection.prepare_cached(INSERT)?.execute(params![
                placed.id,
                org.as_str(),
                order.cart,
                order.amount
            ])?;
            if rows == 0 { ordered_before() } else { created(&placed) }
        };
        self.engine.atomic(route, caller, request.map(Full::new), handler).await
    }

    pub async fn read(&self, org: &Org, id: &str) -> Result<Option<Order>, BoxError> {
        let (org, wanted) = (org.clone(), id.to_owned());
        let amount = self
            .engine
            .store()
            .read(move |connection| {
                connection
                    .prepare_cached(READ)?
                    .query_row(params![org.as_str(), wanted], |row| row.get::<_, i64>(0))
                    .optional()
            })
            .await??;
        Ok(amount.map(|amount| Order { id: id.to_owned(), amount }))
    }
}
