//! What the gateway says of itself: its policies to everybody, its state to operators.

use crate::backend::Backend;
use crate::client::Ask;
use crate::world::{Kind, World};

#[tokio::test]
async fn every_policy_can_be_read_without_a_token() {
    let settings = "
        [[token]]
        sha256 = \"f55ff16f66f43360266b95db6f8fec01d76031054306ae4a4b380598f6cfd114\"
        org = \"alpha\"
        [[route]]
        name = \"orders\"
        path = \"/orders/{id}\"
        methods = [\"PUT\"]
        retention_days = 2
        replay_status = 200";
    let world = World::with(Kind::Sqlite, Backend::creating().await, settings).await;
    let answer = world.send(&Ask::new("GET", "/.well-known/idempotency")).await;
    assert_eq!((answer.status, answer.one("content-type")), (200, Some("application/json")));
    let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let routes = document["routes"].as_array().unwrap();
    assert_eq!(routes[0]["path"], "/orders/{id}");
    assert_eq!(routes[0]["methods"], serde_json::json!(["PUT"]));
    assert_eq!(routes[0]["key"], "required");
    assert_eq!(routes[0]["retention_seconds"], 172_800);
    assert_eq!(routes[0]["replay_status"], 200);
    assert_eq!((&routes[1]["name"], &routes[1]["key"]), (&"default".into(), &"optional".into()));
    assert!(!answer.text().contains("alpha"));
    assert_eq!(world.backend.connections(), 0);
}

#[tokio::test]
async fn operators_have_a_listener_of_their_own() {
    let world = World::plain(Kind::Sqlite, Backend::creating().await).await;
    let admin = world.gateway.admin.unwrap();
    for (page, status, text) in [
        ("/healthz", 200, "ok\n"),
        ("/readyz", 200, "ready\n"),
        ("/metrics", 200, "counted 1\n"),
        ("/other", 404, "try /healthz, /readyz or /metrics\n"),
    ] {
        let answer = Ask::new("GET", page).send(admin).await;
        assert_eq!((answer.status, answer.text().as_str()), (status, text));
    }
    assert_eq!(Ask::new("POST", "/healthz").send(admin).await.status, 405);
    // To clients these are paths of the upstream like any other.
    assert_eq!(world.send(&Ask::new("GET", "/healthz")).await.status, 201);
    assert_eq!(world.backend.effects(), 1);
}
