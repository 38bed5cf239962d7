//! The settings in force and where each came from, without anything secret.
//!
//! A setting is shown only if it stands in one of these lists, so that a new secret is not shown by an oversight.

use super::source::Source;
use super::{Overrides, Settings};
use crate::error::Error;
use samekey_store::address::redacted;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// Where a setting's value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag or its variable.
    Override,
    /// The file and line, such as `samekey.toml:7`.
    File(String),
    /// Nobody said anything.
    Default,
}

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name within its table.
    pub key: String,
    /// Its value as it would stand in the file; nothing where it is not set and that is its meaning.
    pub value: Option<String>,
    /// Where that came from.
    pub origin: Origin,
}

/// The settings of one table of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// How it is written, such as `[limits]` or `[[route]]`; empty for the settings before all tables.
    pub header: String,
    /// Its settings, in the order of the documentation.
    pub settings: Vec<Setting>,
}

/// What is shown of a setting that nobody set.
#[derive(Clone, Copy)]
enum Usual {
    /// This, as it would stand in the file.
    Value(&'static str),
    /// That it is not set.
    Unset,
}
use Usual::{Unset, Value as Is};

const TOP: &[(&str, Usual)] = &[
    ("upstream", Unset),
    ("listen", Is("\"127.0.0.1:8080\"")),
    ("admin", Unset),
    ("database", Is("\"sqlite:samekey.db\"")),
    ("repeats", Is("\"observe\"")),
    ("repeats_window_ms", Is("60000")),
    ("org", Unset),
    ("trusted_proxies", Unset),
    ("org_header", Is("\"x-org\"")),
    ("jwt", Unset),
    ("upstream_ca", Unset),
    ("upstream_http", Is("\"auto\"")),
    ("tls", Unset),
];
const LIMITS: &[(&str, Usual)] = &[
    ("connections_max", Is("4096")),
    ("headers_time_max_ms", Is("10000")),
    ("idle_time_max_ms", Is("60000")),
    ("stall_time_max_ms", Is("30000")),
    ("connect_time_max_ms", Is("5000")),
    ("answer_time_max_ms", Is("60000")),
    ("grace_ms", Is("30000")),
];
const ROUTE: &[(&str, Usual)] =
    &[("name", Unset), ("path", Unset), ("methods", Is("[\"POST\", \"PATCH\"]"))];
const POLICY: &[(&str, Usual)] = &[
    ("key", Is("\"optional\"")),
    ("on_mismatch", Is("\"reject\"")),
    ("mismatch_status", Is("422")),
    ("replay_status", Unset),
    ("retention_days", Is("30")),
    ("timeout_ms", Is("30000")),
    ("lease_ms", Is("60000")),
    ("run_max_ms", Is("300000")),
    ("fingerprint", Is("\"json\"")),
    ("semantic_headers", Is("[]")),
    ("on_5xx", Is("\"unknown\"")),
    ("rerun", Is("\"never\"")),
    ("counterparty", Is("\"opaque\"")),
    ("outbound_key", Is("\"hmac\"")),
    ("bind_principal", Is("false")),
    ("in_progress", Unset),
    ("body_bytes_max", Is("1048576")),
    ("kept_bytes_max", Is("65536")),
    ("keep_headers", Is("[]")),
    ("credential", Unset),
    ("ask", Unset),
    ("answer", Unset),
    ("recovered", Unset),
    ("key_life_s", Unset),
    ("stored_refusals", Unset),
    ("questions_max", Is("20")),
];
/// The hash of a token is enough to try tokens against.
const TOKEN: &[(&str, Usual)] = &[("org", Unset), ("principal", Unset)];

impl Settings {
    /// The settings in force, table by table, and where each came from.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn shown(file: Option<(&str, &str)>, overrides: &Overrides) -> Result<Vec<Table>, Error> {
        Settings::read(file, overrides)?;
        let (name, text) = file.unwrap_or_default();
        let source = Source { name, text };
        let parsed = source.parse()?;
        let top = parsed.get_ref();
        let mut tables = vec![with_overrides(table("", source, Some(top), TOP), overrides)];
        let limits = find(top, "limits").and_then(DeValue::as_table);
        tables.push(table("[limits]", source, limits, LIMITS));
        let default = find(top, "default").and_then(DeValue::as_table);
        tables.push(table("[default]", source, default, POLICY));
        for route in list(top, "route") {
            let mut shown = table("[[route]]", source, Some(route), ROUTE);
            let mut policy = table("", source, Some(route), POLICY).settings;
            // Who writes a route down means it.
            for setting in &mut policy {
                if setting.key == "key" && setting.origin == Origin::Default {
                    setting.value = Some("\"required\"".to_owned());
                }
            }
            shown.settings.extend(policy);
            tables.push(shown);
        }
        for token in list(top, "token") {
            tables.push(table("[[token]]", source, Some(token), TOKEN));
        }
        tables.iter_mut().for_each(with_dependent);
        Ok(tables)
    }
}

fn find<'t, 'a>(table: &'t DeTable<'a>, key: &str) -> Option<&'t DeValue<'a>> {
    let found = table.iter().find(|(name, _)| name.get_ref() == key);
    found.map(|(_, value)| value.get_ref())
}

fn list<'t, 'a>(top: &'t DeTable<'a>, key: &str) -> Vec<&'t DeTable<'a>> {
    let list = find(top, key).and_then(DeValue::as_array).into_iter().flatten();
    list.filter_map(|one| one.get_ref().as_table()).collect()
}

/// The known settings of a table, as they stand there or as they are without.
fn table(
    header: &str,
    source: Source<'_>,
    found: Option<&DeTable<'_>>,
    known: &[(&str, Usual)],
) -> Table {
    let settings = known.iter().map(|(key, usual)| {
        let found = found.and_then(|table| table.iter().find(|(name, _)| name.get_ref() == key));
        match found {
            Some((name, value)) => Setting {
                key: (*key).to_owned(),
                value: Some(written(value.get_ref())),
                origin: Origin::File(source.place(&name.span())),
            },
            None => Setting {
                key: (*key).to_owned(),
                value: match usual {
                    Usual::Value(value) => Some((*value).to_owned()),
                    Unset => None,
                },
                origin: Origin::Default,
            },
        }
    });
    Table { header: header.to_owned(), settings: settings.collect() }
}

/// A value as it would stand in the file, without user and password of addresses.
fn written(value: &DeValue<'_>) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        DeValue::String(text) => Value::String(redacted(text)).to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(list) => {
            let parts = list.iter().map(|one| written(one.get_ref()));
            format!("[{}]", joined(parts.collect()))
        }
        DeValue::Table(table) => {
            let part = |key: &str, value| format!("{key} = {}", written(value));
            let parts = table.iter().map(|(key, value)| part(key.get_ref(), value.get_ref()));
            format!("{{ {} }}", joined(parts.collect()))
        }
    }
}

/// What flags and variables say comes before the file.
fn with_overrides(mut top: Table, overrides: &Overrides) -> Table {
    let Overrides { upstream, listen, admin, database } = overrides;
    let given =
        [("upstream", upstream), ("listen", listen), ("admin", admin), ("database", database)];
    for (key, text) in given {
        let Some(text) = text else { continue };
        for setting in top.settings.iter_mut().filter(|setting| setting.key == key) {
            setting.value = Some(Value::String(redacted(text)).to_string());
            setting.origin = Origin::Override;
        }
    }
    top
}

/// A command may run for at least as long as its lease.
fn with_dependent(table: &mut Table) {
    let number = |key: &str| {
        let setting = table.settings.iter().find(|setting| setting.key == key);
        setting.and_then(|setting| setting.value.as_ref()?.parse::<u64>().ok())
    };
    let (Some(lease), Some(run_max)) = (number("lease_ms"), number("run_max_ms")) else { return };
    for setting in &mut table.settings {
        if setting.key == "run_max_ms" && setting.origin == Origin::Default {
            setting.value = Some(run_max.max(lease).to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{KEYS, LIMIT_KEYS, route::POLICY_KEYS};

    /// Settings that have tables of their own, or are secret.
    const APART: [&str; 4] = ["limits", "default", "route", "token"];

    fn given(known: &[(&str, Usual)]) -> String {
        let lines = known.iter().filter_map(|(key, usual)| match usual {
            Usual::Value(value) => Some(format!("{key} = {value}\n")),
            Unset => None,
        });
        lines.collect()
    }

    #[test]
    fn every_setting_is_shown() {
        let missing = |keys: &[&str], known: &[(&str, Usual)]| -> Vec<String> {
            let is_known = |key: &&&str| known.iter().any(|(name, _)| *name == **key);
            let missing = keys.iter().filter(|key| !is_known(key) && !APART.contains(key));
            missing.map(|key| (*key).to_owned()).collect()
        };
        assert_eq!(missing(&KEYS, TOP), [""; 0]);
        assert_eq!(missing(&LIMIT_KEYS, LIMITS), [""; 0]);
        assert_eq!(missing(&POLICY_KEYS, POLICY), [""; 0]);
    }

    #[test]
    fn every_default_that_is_shown_is_the_one_in_force() {
        let upstream = "upstream = \"http://127.0.0.1:9000\"\n";
        let plain = Settings::read(Some(("s", upstream)), &Overrides::default()).unwrap();
        let (top, limits, policy) = (given(TOP), given(LIMITS), given(POLICY));
        let text = format!("{upstream}{top}[limits]\n{limits}[default]\n{policy}");
        let all = Settings::read(Some(("s", &text)), &Overrides::default()).unwrap();
        assert_eq!(format!("{all:?}"), format!("{plain:?}"));
        let route = |more: &str| {
            let text = format!("{upstream}[[route]]\nname = \"a\"\npath = \"/a\"\n{more}");
            Settings::read(Some(("s", &text)), &Overrides::default()).unwrap()
        };
        let policy = policy.replace("\"optional\"", "\"required\"");
        let all = route(&format!("{}{policy}", given(ROUTE)));
        assert_eq!(format!("{all:?}"), format!("{:?}", route("")));
    }

    #[test]
    fn a_value_says_where_it_came_from_and_no_secret_is_shown() {
        let text = "upstream = \"http://a\"\nlisten = \"127.0.0.1:1\"\n\
                    database = \"postgres://app:canary@h/d?password=canary\"\n\
                    [[route]]\nname = \"a\"\npath = \"/a\"\nlease_ms = 400_000\n\
                    in_progress = { status = 409, pointer = \"/x\" }\n\
                    [[token]]\norg = \"shop\"\nsha256 = \"";
        let text = format!("{text}{}\"\n", "ca".repeat(32));
        let overrides = Overrides { listen: Some("[::1]:1".to_owned()), ..Overrides::default() };
        let tables = Settings::shown(Some(("s.toml", &text)), &overrides).unwrap();
        let of = |header: &str, key: &str| {
            let table = tables.iter().find(|table| table.header == header).unwrap();
            let setting = table.settings.iter().find(|setting| setting.key == key).unwrap();
            (setting.value.clone().unwrap_or_default(), setting.origin.clone())
        };
        let file = |line: u32| Origin::File(format!("s.toml:{line}"));
        assert_eq!(of("", "upstream"), ("\"http://a\"".to_owned(), file(1)));
        assert_eq!(of("", "listen"), ("\"[::1]:1\"".to_owned(), Origin::Override));
        assert_eq!(of("", "database").1, file(3));
        assert_eq!(of("", "admin"), (String::new(), Origin::Default));
        assert_eq!(of("[limits]", "grace_ms"), ("30000".to_owned(), Origin::Default));
        assert_eq!(of("[default]", "key"), ("\"optional\"".to_owned(), Origin::Default));
        assert_eq!(of("[[route]]", "key"), ("\"required\"".to_owned(), Origin::Default));
        assert_eq!(of("[[route]]", "lease_ms"), ("400000".to_owned(), file(7)));
        assert_eq!(of("[[route]]", "run_max_ms"), ("400000".to_owned(), Origin::Default));
        assert_eq!(
            of("[[route]]", "in_progress"),
            ("{ pointer = \"/x\", status = 409 }".to_owned(), file(8))
        );
        assert_eq!(of("[[token]]", "org"), ("\"shop\"".to_owned(), file(10)));
        let all = format!("{tables:?}");
        assert!(!all.contains("canary") && !all.contains("caca"), "{all}");
    }
}
