//! The three forms of a report.

use samekey_forensics::Report;

use crate::support::examine;

fn report() -> Report {
    examine(
        "payment_id,order_id,created_at,amount,currency,idempotency_key,source\n\
         <b>P1</b>,\"ORD-1<script>alert(1)</script>\",2026-09-07T10:00:05.000Z,1234.50,EUR,K1,web\n\
         P2,\"ORD-1<script>alert(1)</script>\",2026-09-07T10:00:06.020Z,1234.50,EUR,K2,web\n\
         P3,\"ORD-1<script>alert(1)</script>\",2026-09-07T10:00:08.010Z,1234.50,EUR,K3,web\n\
         P4,ORD-2,bad time,5.00,EUR,K4,web\n",
    )
}

#[test]
fn the_page_needs_nothing_beside_itself_and_trusts_no_text() {
    let page = report().to_html(50);
    for outside in ["http:", "https:", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("<script>alert") && !page.contains("<b>P1"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    for part in [
        "name=\"viewport\"",
        "Money at stake",
        "2,469.00 EUR",
        "What to change",
        "A new key per attempt",
        "@media print",
        "aria-label=\"Timeline",
        "records.csv:5",
        "<details",
        ":focus-visible",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    // Every element that is opened is closed.
    for name in ["section", "details", "table", "svg", "ul", "dl", "article", "div", "main"] {
        let opened =
            page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
        assert_eq!(opened, page.matches(&format!("</{name}>")).count(), "{name}");
    }
}

/// The eight columns share 80 signs: the wide ones give before a word of a narrow one is broken.
#[test]
fn a_terminal_of_80_columns_breaks_no_word() {
    let report = examine(
        "payment_id,order_id,created_at\n\
         P1,ORD-2,2026-09-07T10:00:05Z\n\
         P2,ORD-2,2026-09-07T10:00:06Z\n\
         P3,ORD-2,2026-09-07T10:00:08Z\n\
         P4,ORD-2,2026-09-07T10:00:12Z\n",
    );
    let text = report.to_text(80, 50);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let start = text.find("gaps").expect("a header");
    let end = text.find("Gaps between").expect("a plot");
    for word in ["confidence", "exponential", "backoff", "export", "stake"] {
        assert!(text[start..end].contains(word), "{word} is broken:\n{text}");
    }
}

#[test]
fn the_json_form_is_whole() {
    let json: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
    assert_eq!(json["format_version"], 1);
    assert_eq!(json["totals"]["surplus"], 2);
    assert_eq!(json["totals"]["money"][0]["at_stake_minor"], 246_900);
    let cluster = &json["clusters"][0];
    assert_eq!(cluster["gaps_s"], serde_json::json!([1.02, 1.99]));
    assert_eq!(cluster["verdict"], "new_key_per_attempt");
    assert_eq!(cluster["rows"][0]["line"], 2);
    assert_eq!(json["problems"][0]["kind"], "time_unreadable");
    assert_eq!(json["inputs"][0]["columns"]["reference"], "order_id");
}

#[test]
fn text_for_a_terminal_holds_no_control_characters() {
    let text = examine(
        "payment_id,order_id,created_at\n\
         P1,ORD-\u{1b}[31m1,2026-09-07T10:00:05Z\n\
         P2,ORD-\u{1b}[31m1,2026-09-07T10:00:06Z\n",
    )
    .to_text(100, 20);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn the_text_of_a_small_report_stands_as_it_is() {
    insta::assert_snapshot!(report().to_text(110, 20));
}
