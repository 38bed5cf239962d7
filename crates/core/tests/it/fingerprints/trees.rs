//! JSON values that can be written in many ways.

use proptest::collection::vec;
use proptest::prelude::*;

/// A JSON value that can be written in many ways.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Word(&'static str),
    Number(String),
    Text(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

pub fn tree() -> impl Strategy<Value = Tree> {
    let text = || "[a-c\"\\\\/\u{0}-\u{1f} é🔑]{0,4}";
    let leaf = prop_oneof![
        prop_oneof![Just("true"), Just("false"), Just("null")].prop_map(Tree::Word),
        "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?".prop_map(Tree::Number),
        text().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Tree::Array),
            vec((text(), inner), 0..6).prop_map(|mut members| {
                // Sorted, so that equal values are equal trees.
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                members.dedup_by(|(one, _), (other, _)| one == other);
                Tree::Object(members)
            }),
        ]
    })
}

/// Writes trees; the choices of spelling come from bytes, so that proptest can shrink them.
pub struct Scribe<'a> {
    choices: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    out: String,
}

impl<'a> Scribe<'a> {
    pub fn write(tree: &Tree, choices: &'a [u8]) -> String {
        let mut scribe = Self { choices: choices.iter().cycle(), out: String::new() };
        scribe.value(tree);
        scribe.out
    }

    fn choose(&mut self, ways: usize) -> usize {
        usize::from(*self.choices.next().expect("there are choices")) % ways
    }

    fn blank(&mut self) {
        let blank = ["", "", " ", "\n\t", "\r "][self.choose(5)];
        self.out.push_str(blank);
    }

    fn mark(&mut self, mark: &str) {
        self.blank();
        self.out.push_str(mark);
        self.blank();
    }

    fn value(&mut self, tree: &Tree) {
        self.blank();
        match tree {
            Tree::Word(word) => self.out.push_str(word),
            Tree::Number(lexeme) => self.out.push_str(lexeme),
            Tree::Text(text) => self.text(text),
            Tree::Array(items) => {
                self.mark("[");
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        self.mark(",");
                    }
                    self.value(item);
                }
                self.mark("]");
            }
            Tree::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                self.mark("{");
                let mut first = true;
                while !members.is_empty() {
                    let (name, value) = members.swap_remove(self.choose(members.len()));
                    if !std::mem::take(&mut first) {
                        self.mark(",");
                    }
                    self.text(name);
                    self.mark(":");
                    self.value(value);
                }
                self.mark("}");
            }
        }
        self.blank();
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let short = match character {
                '"' => Some('"'),
                '\\' => Some('\\'),
                '/' => Some('/'),
                '\u{8}' => Some('b'),
                '\u{c}' => Some('f'),
                '\n' => Some('n'),
                '\r' => Some('r'),
                '\t' => Some('t'),
                _ => None,
            };
            let must = character < ' ' || character == '"' || character == '\\';
            match (self.choose(3), short) {
                (0, _) if !must => self.out.push(character),
                (0 | 1, Some(short)) => self.out.extend(['\\', short]),
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let (small, large) = (format!("\\u{unit:04x}"), format!("\\u{unit:04X}"));
                        let escape = if self.choose(2) == 0 { small } else { large };
                        self.out.push_str(&escape);
                    }
                }
            }
        }
        self.out.push('"');
    }
}

/// Other trees that are near this one: one leaf or one name changed, or two items of an array swapped.
pub fn neighbours(tree: &Tree) -> Vec<Tree> {
    let mut all = vec![Tree::Array(vec![tree.clone()])];
    match tree {
        Tree::Word(word) => {
            all.push(Tree::Word(if *word == "null" { "true" } else { "null" }));
            all.push(Tree::Text((*word).to_owned()));
        }
        Tree::Number(lexeme) => {
            all.push(Tree::Text(lexeme.clone()));
            if !lexeme.contains(['.', 'e', 'E']) {
                all.push(Tree::Number(format!("{lexeme}.0")));
                all.push(Tree::Number(format!("{lexeme}e0")));
            }
        }
        Tree::Text(text) => {
            all.push(Tree::Text(format!("{text}a")));
            all.push(Tree::Text(format!("{text}\u{301}")));
        }
        Tree::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                for neighbour in neighbours(item) {
                    let mut items = items.clone();
                    items[n] = neighbour;
                    all.push(Tree::Array(items));
                }
            }
            let mut reversed = items.clone();
            reversed.reverse();
            if reversed != *items {
                all.push(Tree::Array(reversed));
            }
        }
        Tree::Object(members) => {
            for (n, (name, value)) in members.iter().enumerate() {
                let mut renamed = members.clone();
                renamed[n].0 = format!("{name}zzzz");
                all.push(Tree::Object(renamed));
                for neighbour in neighbours(value) {
                    let mut members = members.clone();
                    members[n].1 = neighbour;
                    all.push(Tree::Object(members));
                }
            }
        }
    }
    all
}
