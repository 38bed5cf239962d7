//! What the documentation shows is what the lab takes.

use samekey_lab::faults::Plan;
use std::path::Path;

fn documentation() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab.md"))
        .unwrap()
}

#[test]
fn every_example_of_a_fault_is_a_plan() {
    let text = documentation();
    let (_, section) = text.split_once("### An example for each fault").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut examples = 0;
    for line in section.lines() {
        for code in line.split('`').skip(1).step_by(2).filter(|code| code.starts_with('{')) {
            let is_plan = line.contains("| plan:");
            let plan = if is_plan { code.to_owned() } else { format!("{{\"rules\":[{code}]}}") };
            let plan = Plan::from_json("example", plan.as_bytes())
                .unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_ne!(plan, Plan::default(), "{line}");
            examples += 1;
        }
    }
    assert!(examples > 35, "only {examples} examples were found");
}

#[test]
fn the_blocks_of_json_are_a_plan_and_a_rule() {
    let text = documentation();
    let blocks: Vec<&str> =
        text.split("```json").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [plan, rule] = blocks.as_slice() else { panic!("{} blocks", blocks.len()) };
    Plan::from_json("plan", plan.as_bytes()).unwrap();
    Plan::from_json("rule", format!("{{\"rules\":[{rule}]}}").as_bytes()).unwrap();
}
