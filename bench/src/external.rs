//! Lines g and h: external commands over HTTP, against the same handler without samekey.

use crate::Plan;
use crate::forms::{Form, Keys, Service, compare};
use crate::load::Failure;
use crate::sql;
use crate::table::Table;
use samekey_sim::{Cluster, Options, Program};

const EXTERNAL: Form = Form { path: "/external", keys: Keys::New };
const BY_HAND: Form = Form { path: "/by-hand", keys: Keys::New };
/// Records that wait for an answer in line h.
const UNKNOWN: u32 = 100_000;

pub async fn on_postgres(
    plan: Plan,
    wanted: &dyn Fn(&str) -> bool,
    table: &mut Table,
) -> Result<(), Failure> {
    if !["g", "h"].iter().any(|letter| wanted(letter)) {
        return Ok(());
    }
    let cluster = Cluster::start(Options::default())?;
    let mut echo = Program::at(std::env::current_exe()?).arg("echo").start()?;
    let provider = format!("http://{}", echo.address()?);
    let service = Service::with_provider(&cluster.create_database("external")?, &provider)?;
    let service = service.counted_with(&cluster)?;
    if wanted("g") {
        let ratios = compare(plan, (&service, EXTERNAL), (&service, BY_HAND)).await?;
        let what = "external command / the same call between two autocommit inserts";
        table.ratio("g", what, &ratios, Some(1.00));
    }
    if wanted("h") {
        let url = cluster.create_database("waiting")?;
        let waiting = Service::with_provider(&url, &provider)?.counted_with(&cluster)?;
        fill(&url).await?;
        let ratios = compare(plan, (&waiting, EXTERNAL), (&service, EXTERNAL)).await?;
        let what = format!("external command while {UNKNOWN} unknown records wait / without");
        table.ratio("h", &what, &ratios, Some(0.90));
    }
    Ok(())
}

/// A hundred thousand records that are unknown since an outage, of a hundred organisations, due at any
/// time of the next five minutes, which is the longest pause between two questions.
async fn fill(url: &str) -> Result<(), Failure> {
    sql::execute(
        url,
        &format!(
            "insert into samekey.keys (org_id, key, fence, revision, holder, keep_until, state, since,
                 request_version, request_sha, frame_sha, life, reason, last_send, ask_after, asked, not_found)
             select 'org-' || n % 100, 'unknown-' || n, 1, 2, decode(md5(n::text), 'hex'),
                 now() + interval '30 days', 'unknown', now(), 1,
                 decode(md5(n::text) || md5(n::text), 'hex'), decode(md5(n::text) || md5(n::text), 'hex'),
                 1, 'timed-out', now(), now() + n % 300 * interval '1 second', 8, 0
             from generate_series(1, {UNKNOWN}) n;
             insert into samekey.open_claims (org_id, key, route, outbound_key, due_at)
             select org_id, key, 'payments', decode(md5(key), 'hex'), ask_after
             from samekey.keys where state = 'unknown'"
        ),
    )
    .await?;
    sql::execute(url, "vacuum analyze samekey.keys").await?;
    sql::execute(url, "vacuum analyze samekey.open_claims").await
}
