//! The real `orders` program, as processes that a test kills, and the counterparty's own count.

use super::Which;
use super::reach::{BOUND, Order, pause};
use samekey_sim::history::{Effect, History, Row, Rules, Violation};
use samekey_sim::{Cluster, FreshDatabase, Process, Program};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The organisation of the token that these callers use.
pub const ORG: &str = "alpha";
const TOKEN: &str = "alpha-token";

/// `orders`: the first write wins, and a retry says 200.
pub const RULES: Rules = Rules { first_write_wins: true, replay_status: Some(200) };

/// A database for the program.
pub enum Ground {
    Sqlite(tempfile::TempDir),
    Postgres(FreshDatabase),
    /// A database in a cluster of the test's own, by its address.
    Cluster(String),
}

/// The program's database, and the ways to look into it past the program.
pub struct Shop {
    ground: Ground,
}

impl Shop {
    pub async fn fresh(which: Which) -> Shop {
        let ground = match which {
            Which::Sqlite => Ground::Sqlite(tempfile::tempdir().unwrap()),
            Which::Postgres => Ground::Postgres(samekey_sim::fresh_database().await),
        };
        Shop { ground }
    }

    /// In a cluster that the test may kill.
    pub fn in_cluster(cluster: &Cluster) -> Shop {
        Shop { ground: Ground::Cluster(cluster.create_database("shop").unwrap()) }
    }

    pub fn address(&self) -> String {
        match &self.ground {
            Ground::Sqlite(folder) => format!("sqlite:{}", folder.path().join("shop.db").display()),
            Ground::Postgres(database) => database.url().to_owned(),
            Ground::Cluster(url) => url.clone(),
        }
    }

    /// Starts the program, with a crash point armed or none, and reads where it listens.
    pub fn start(&self, crash_point: Option<&str>) -> (Process, SocketAddr) {
        self.start_at(&self.address(), crash_point)
    }

    /// The same, reaching its database by another address.
    pub fn start_at(&self, database: &str, crash_point: Option<&str>) -> (Process, SocketAddr) {
        let mut program = Program::built("orders")
            .unwrap()
            .args(["--listen", "127.0.0.1:0", "--database", database])
            .env("RUST_LOG", "warn");
        // A planted bug is in both, the program and the library under the tests.
        if let Ok(bug) = std::env::var("SAMEKEY_BUG") {
            program = program.env("SAMEKEY_BUG", bug);
        }
        if let Some(armed) = crash_point {
            program = program.env("SAMEKEY_CRASH_POINT", armed);
        }
        tokio::task::block_in_place(|| {
            let mut process = program.start().unwrap();
            let address = process.address().unwrap();
            (process, address)
        })
    }

    /// The orders as the shop's own table has them: an order is known by its amount.
    pub async fn effects(&self) -> Vec<Effect> {
        let orders = self.query("select org_id, cast(amount as text), '', '' from orders").await;
        orders.into_iter().map(|[org, reference, _, _]| Effect { org, reference }).collect()
    }

    /// The rows of the ledger.
    pub async fn rows(&self) -> Vec<Row> {
        let table = match &self.ground {
            Ground::Sqlite(_) => "samekey_keys",
            Ground::Postgres(_) | Ground::Cluster(_) => "samekey.keys",
        };
        let sql = format!(
            "select org_id, key, state, coalesce(cast(answer_status as text), '') from {table}"
        );
        let rows = self.query(&sql).await.into_iter();
        rows.map(|[org, key, state, status]| Row { org, key, state, status: status.parse().ok() })
            .collect()
    }

    async fn query(&self, sql: &str) -> Vec<[String; 4]> {
        match &self.ground {
            Ground::Sqlite(_) => {
                let connection = self.open();
                let mut statement = connection.prepare(sql).unwrap();
                let rows = statement
                    .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]));
                rows.unwrap().map(Result::unwrap).collect()
            }
            Ground::Postgres(_) | Ground::Cluster(_) => {
                let rows = self.client().await.query(sql, &[]).await.unwrap();
                rows.iter().map(|row| [row.get(0), row.get(1), row.get(2), row.get(3)]).collect()
            }
        }
    }

    async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(&self.address(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    fn open(&self) -> rusqlite::Connection {
        let Ground::Sqlite(folder) = &self.ground else { panic!("this shop is on PostgreSQL") };
        let connection = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        connection
    }

    /// Copies one finished row as `count` keys whose retention is over.
    pub async fn add_expired(&self, count: i64) {
        match &self.ground {
            Ground::Sqlite(_) => {
                let connection = self.open();
                let copy = format!(
                    "begin immediate;
                     create temp table old as select * from samekey_keys where state = 'done' limit 1;
                     update old set since = 1000000, keep_until = 2000000;
                     create temp table n as with recursive n(n) as
                       (select 1 union all select n + 1 from n where n < {count}) select n from n;"
                );
                connection.execute_batch(&copy).unwrap();
                for n in 0..count {
                    let next = format!(
                        "update old set key = 'old-{n}'; insert into samekey_keys select * from old;"
                    );
                    connection.execute_batch(&next).unwrap();
                }
                connection.execute_batch("commit").unwrap();
            }
            Ground::Postgres(_) | Ground::Cluster(_) => {
                let copy = "insert into samekey.keys
                    select (jsonb_populate_record(old, jsonb_build_object(
                        'key', 'old-' || n,
                        'since', now() - interval '2 days',
                        'keep_until', now() - interval '1 day'))).*
                    from (select keys from samekey.keys where state = 'done' limit 1) as one(old),
                        generate_series(1, $1::bigint) as n";
                self.client().await.execute(copy, &[&count]).await.unwrap();
            }
        }
    }

    /// How many of those are left.
    pub async fn expired_left(&self) -> usize {
        self.rows().await.iter().filter(|row| row.key.starts_with("old-")).count()
    }

    /// Everything that is wrong after a run.
    pub async fn violations(&self, history: &History) -> Vec<Violation> {
        history.check(&self.effects().await, &self.rows().await, RULES)
    }
}

/// Where the callers find the service now; it moves when a process is started anew.
#[derive(Clone)]
pub struct Door(Arc<Mutex<Vec<SocketAddr>>>);

impl Door {
    pub fn at(addresses: &[SocketAddr]) -> Door {
        Door(Arc::new(Mutex::new(addresses.to_vec())))
    }

    pub fn replace(&self, old: SocketAddr, new: SocketAddr) {
        for address in self.0.lock().unwrap().iter_mut().filter(|address| **address == old) {
            *address = new;
        }
    }

    fn nth(&self, n: usize) -> SocketAddr {
        let addresses = self.0.lock().unwrap();
        addresses[n % addresses.len()]
    }
}

/// The order that costs this amount; no two orders of a run cost the same.
pub fn order_of(key: &str, amount: usize) -> Order {
    let body = format!(r#"{{"amount":{amount}}}"#);
    Order { token: TOKEN, path: "/orders", key: key.to_owned(), body }
}

/// A caller that places orders one after another, each sent with its key until its answer is final,
/// at whichever address comes next.
pub async fn customer(door: Door, history: History, amounts: std::ops::Range<usize>) {
    for amount in amounts {
        let order = order_of(&format!("key-{amount}"), amount);
        let reference = amount.to_string();
        let deadline = Instant::now() + BOUND;
        let mut sent = 0;
        loop {
            let address = door.nth(amount + sent);
            let told = (ORG, reference.as_str(), "amount");
            let answer = order.send_recorded(address, &history, told).await;
            sent += 1;
            if answer.is_some_and(|answer| answer.is_final()) {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "no final answer for {reference} in {sent} attempts"
            );
            pause().await;
        }
    }
}
