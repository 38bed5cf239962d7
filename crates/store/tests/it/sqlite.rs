//! The SQLite adapter: the suite of all stores, and what it promises besides.

mod atomic;
mod bench;
mod busy;
mod file;
mod group;
mod hands;
mod migration;
mod opening;
mod outbox;
mod processes;

use crate::conformance::{Fresh, conformance};
use crate::outbox::outbox_conformance;
use crate::outbox_traces;
use crate::traces;
use file::File;
use samekey_store::sqlite::SqliteLedger;
use std::sync::Arc;

async fn start() -> Fresh<SqliteLedger, File, ()> {
    let file = File::migrated();
    Fresh { ledger: Arc::new(file.open()), aging: file, keep: () }
}

conformance!(start);
outbox_conformance!(super::start);

/// Each trace gets an emptied file; making a new one for each would only measure the disk.
#[test]
fn b10_random_traces_read_the_same() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let file = File::migrated();
    let ledger = file.open();
    traces::compare(96, |operations| {
        file.raw()
            .execute_batch(
                "delete from samekey_open_claims; delete from samekey_keys; \
                 delete from samekey_decisions; delete from samekey_meta",
            )
            .expect("emptied");
        runtime.block_on(traces::play(&ledger, &file, operations))
    });
}

#[test]
fn b10_random_traces_on_the_outbox_read_the_same() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let file = File::migrated();
    let ledger = file.open();
    outbox_traces::compare(96, &runtime, &ledger, &file, || {
        file.raw()
            .execute_batch(
                "delete from samekey_outbox; delete from samekey_finished; \
                 delete from samekey_order_keys; delete from samekey_order_turns; \
                 delete from samekey_attempts; delete from samekey_command_decisions; \
                 delete from samekey_commands",
            )
            .expect("emptied");
    });
}
