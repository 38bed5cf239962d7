//! Orders on PostgreSQL.

use super::{NewOrder, Order, created, ordered_before};
use http_body_util::Full;
use samekey::core::key::Org;
use samekey::store::postgres::{self, PostgresLedger};
use samekey::store::{Kind, StoreError};
use samekey::{BoxError, Caller, Engine, Request, Response, Route};
use uuid::Uuid;

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
    on conflict (org_id, cart) do nothing";
const READ: &str = "select amount from orders where org_id = $1 and id = $2";

#[derive(Clone)]
pub struct Orders {
    pub engine: Engine<PostgresLedger>,
}

impl Orders {
    pub async fn open(url: &str) -> Result<Orders, StoreError> {
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
        let handler = move |tx: postgres::Tx, _: Request| {
            let (org, order) = (org.clone(), order.clone());
            async move {
                let placed = Order { id: Uuid::now_v7().to_string(), amount: order.amount };
                let insert = tx.prepare_cached(INSERT).await?;
                let rows = tx
                    .execute(&insert, &[&placed.id, &org.as_str(), &order.cart, &order.amount])
                    .await?;
                if rows == 0 { ordered_before() } else { created(&placed) }
            }
        };
        self.engine.atomic(route, caller, request.map(Full::new), handler).await
    }

    pub async fn read(&self, org: &Org, id: &str) -> Result<Option<Order>, BoxError> {
        let client = self.engine.store().pool().get().await?;
        let read = client.prepare_cached(READ).await?;
        let row = client.query_opt(&read, &[&org.as_str(), &id]).await?;
        Ok(match row {
            Some(row) => Some(Order { id: id.to_owned(), amount: row.try_get("amount")? }),
            None => None,
        })
    }
}

fn failed(sentence: &str) -> StoreError {
    StoreError::new(Kind::Other, sentence)
}
