//! A sweep goes through the whole list, and a place that nothing reached is a failure.

use samekey_sim::sweep::{Action, Combination, Outcome, Reach, Sweep};
use samekey_sim::{Process, Program};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(30);
const POINTS: [&str; 3] = ["a.before", "a.after", "writer.begun"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Files,
    Server,
}

/// A program with these three places, the second of which has no error to give.
const PROGRAM: &str = r#"
case $SAMEKEY_CRASH_POINT in
  a.after:2=error)
    echo "SAMEKEY_CRASH_POINT: found a.after=error; this place has no error to give" >&2
    exit 2 ;;
esac
action=${SAMEKEY_CRASH_POINT#*=}
place=${SAMEKEY_CRASH_POINT%%:*}
echo "crash point $place: ${action%%:*}" >&2
case $action in
  abort) kill -ABRT $$ ;;
  stop) kill -STOP $$; echo went on ;;
  sleep:30) echo woke up ;;
esac
"#;

fn start(combination: &Combination<On>, script: &str) -> Process {
    combination.arm(Program::at("/bin/sh").args(["-c", script])).start().unwrap()
}

/// Sees the program come to its place, and lets it end.
fn drive(combination: &Combination<On>, script: &str) -> Outcome {
    let process = start(combination, script);
    match combination.wait_until_reached(&process, BOUND).unwrap() {
        Reach::NotReached => return Outcome::NotReached,
        Reach::NoError => return Outcome::NoError,
        Reach::Reached => {}
    }
    if combination.action == Action::Stop {
        process.thaw().unwrap();
    }
    let finished = process.wait(BOUND).unwrap();
    match (combination.action, finished.signal(), finished.stdout.as_str()) {
        (Action::Abort, Some(6), _) => Outcome::Held("died".to_owned()),
        (Action::Stop, None, "went on\n") => Outcome::Held("went on".to_owned()),
        (Action::Error | Action::Panic, None, "") => Outcome::Held("failed".to_owned()),
        (Action::Sleep, None, "woke up\n") => Outcome::Held("woke up".to_owned()),
        (action, signal, said) => Outcome::Broken(format!("{action:?}: {signal:?}, {said}")),
    }
}

fn exists(combination: &Combination<On>) -> bool {
    combination.database == On::Files || !combination.boundary.starts_with("writer.")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_goes_through_every_combination() {
    let sweep = Sweep::of(&POINTS, &[On::Files, On::Server]).at_pass(2);
    let sweep = sweep.sleeping(Duration::from_millis(30)).at_once(3);
    let table = sweep
        .run(|combination| {
            exists(&combination).then_some(async move {
                tokio::task::block_in_place(|| drive(&combination, PROGRAM))
            })
        })
        .await;
    // Three places on one database and two on the other, with five actions each.
    assert_eq!((table.combinations(), table.reached()), (25, 25));
    table.hold();
    let text = table.to_string();
    assert!(text.contains("Files   a.before      abort  held: died"), "{text}");
    assert!(text.contains("Server  a.after       error  reached; no error to give here"), "{text}");
    assert!(text.contains("Files   writer.begun  stop   held: went on"), "{text}");
    assert!(text.contains("25 combinations, 25 reached, in "), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_fails_where_a_place_is_never_reached() {
    let sweep = Sweep::of(&POINTS, &[On::Server]).with_actions(&[Action::Abort]);
    let table = sweep
        .run(|combination| {
            let script = if combination.boundary == "a.after" { "true" } else { PROGRAM };
            exists(&combination).then_some(async move {
                tokio::task::block_in_place(|| drive(&combination, script))
            })
        })
        .await;
    assert_eq!((table.combinations(), table.reached()), (2, 1));
    let failures = table.failures();
    let expected = [
        "a.after=abort on Server: NOT REACHED",
        "a.after was never reached",
        "writer.begun was never reached",
    ];
    assert_eq!(failures, expected);
}

#[tokio::test]
async fn sweep_says_what_broke_and_what_hung_and_goes_on() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let sweep = Sweep::of(&["a.before"], &[On::Files])
        .within(Duration::from_millis(200), Duration::from_secs(60));
    let table = sweep
        .run(|combination| {
            let noted = Arc::clone(&noted);
            Some(async move {
                noted.lock().unwrap().push(combination.armed());
                match combination.action {
                    Action::Abort => panic!("two effects"),
                    Action::Error => std::future::pending().await,
                    Action::Stop => Outcome::Broken("S1: 2 effects".to_owned()),
                    Action::Panic | Action::Sleep => Outcome::Held("answered".to_owned()),
                }
            })
        })
        .await;
    let actions = ["abort", "error", "stop", "panic", "sleep:3000"];
    assert_eq!(*seen.lock().unwrap(), actions.map(|action| format!("a.before:1={action}")));
    let expected = [
        "a.before=abort on Files: BROKEN: two effects",
        "a.before=error on Files: TIMED OUT",
        "a.before=stop on Files: BROKEN: S1: 2 effects",
    ];
    assert_eq!(table.failures(), expected);
}

/// The store reads what a sweep arms, and says what it waits for.
#[test]
fn sweep_speaks_the_words_of_the_store() {
    let store = include_str!("../../../store/src/crash.rs");
    for action in Action::ALL {
        let read = match action {
            Action::Sleep => "strip_prefix(\"sleep:\")".to_owned(),
            Action::Abort | Action::Error | Action::Stop | Action::Panic => {
                format!("\"{}\" => Action::", action.name())
            }
        };
        assert!(store.contains(&read), "{action:?}");
        // The panic and the place's own name are in one text, and `stop` is said by a shell.
        let said = [format!("}}: {}\"", action.name()), format!("$2: {}\"", action.name())];
        assert!(said.iter().any(|said| store.contains(said)), "{action:?}");
    }
    let said =
        ["\"SAMEKEY_CRASH_POINT\"", "crash point {name}: ", "this place has no error to give"];
    assert!(said.iter().all(|words| store.contains(words)));
}

#[tokio::test]
async fn sweep_ends_when_its_time_is_over() {
    let sweep = Sweep::of(&["a.before"], &[On::Files, On::Server])
        .within(Duration::from_secs(60), Duration::from_millis(50));
    let table = sweep.run(|_| Some(std::future::pending())).await;
    // Five actions on two databases, and a place that was never reached.
    assert_eq!(table.failures().len(), 11);
}

#[tokio::test]
async fn sweep_runs_as_many_at_a_time_as_it_may() {
    let together = Arc::new(tokio::sync::Barrier::new(5));
    let sweep = Sweep::of(&["a.before"], &[On::Files])
        .at_once(5)
        .within(Duration::from_secs(60), Duration::from_secs(60));
    let table = sweep
        .run(|combination| {
            let together = Arc::clone(&together);
            Some(async move {
                together.wait().await;
                Outcome::Held(combination.action.name().to_owned())
            })
        })
        .await;
    table.hold();
    let text = table.to_string();
    let order = ["held: abort", "held: error", "held: stop", "held: panic", "held: sleep"];
    let places: Vec<_> = order.iter().map(|held| text.find(held).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
}
