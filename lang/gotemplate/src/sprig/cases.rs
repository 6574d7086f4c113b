//! The cases of identifiers as huandu/xstrings changes them.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    None,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

fn is_connector(it: char) -> bool {
    it == '-' || it == '_' || it.is_whitespace()
}

// Letters that have cases, and those of scripts without: what xstrings calls an alphabet.
fn is_alphabet(it: char) -> bool {
    it.is_alphabetic() && (it.is_uppercase() || it.is_lowercase())
}

fn is_punctuation(it: char) -> bool {
    it.is_ascii_punctuation() && !"$+<=>^`|~".contains(it)
        || matches!(it, '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}')
}

fn next_word(text: &[char]) -> (Kind, usize) {
    let Some(&first) = text.first() else {
        return (Kind::None, 0);
    };
    let run = |from: usize, keep: &dyn Fn(char) -> bool| from + text[from..].iter().take_while(|it| keep(**it)).count();
    if is_connector(first) {
        (Kind::Connector, run(1, &is_connector))
    } else if is_punctuation(first) {
        (Kind::Punctuation, run(1, &is_punctuation))
    } else if first.is_uppercase() {
        let Some(&second) = text.get(1) else {
            return (Kind::Upper, 1);
        };
        if second.is_uppercase() {
            let end = run(1, &char::is_uppercase);
            // The last capital of a row begins the word that follows.
            let joined = text.get(end).is_some_and(|it| is_alphabet(*it));
            (Kind::Upper, if joined { end - 1 } else { end })
        } else if is_alphabet(second) {
            (Kind::Upper, run(1, &|it| is_alphabet(it) && !it.is_uppercase()))
        } else {
            (Kind::Upper, 1)
        }
    } else if is_alphabet(first) {
        (Kind::Alphabet, run(1, &|it| is_alphabet(it) && !it.is_uppercase()))
    } else if first.is_numeric() {
        (Kind::Number, run(1, &char::is_numeric))
    } else {
        let other = |it: char| !(is_connector(it) || is_alphabet(it) || it.is_numeric() || is_punctuation(it));
        (Kind::Other, run(1, &other))
    }
}

struct Words<'a> {
    rest: &'a [char],
    kind: Kind,
    word: &'a [char],
}

impl Words<'_> {
    fn step(&mut self) {
        let (kind, length) = next_word(self.rest);
        self.kind = kind;
        let (word, rest) = self.rest.split_at(length);
        self.word = word;
        self.rest = rest;
    }
}

fn lower(out: &mut String, kind: Kind, word: &[char], connector: char) {
    if kind != Kind::Upper && kind != Kind::Connector {
        out.extend(word);
        return;
    }
    for it in word {
        if is_connector(*it) {
            out.push(connector);
        } else {
            out.extend(it.to_lowercase());
        }
    }
}

/// `FirstName` as `first_name`, with the connector that is asked for.
pub(super) fn snake(text: &str, connector: char) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 8);
    let mut it = Words {
        rest: &chars,
        kind: Kind::None,
        word: &[],
    };
    it.step();
    while !it.rest.is_empty() {
        if it.kind != Kind::Connector {
            lower(&mut out, it.kind, it.word, connector);
        }
        let (before, last) = (it.kind, it.word);
        it.step();
        match before {
            Kind::Number => {
                while matches!(it.kind, Kind::Alphabet | Kind::Number) {
                    lower(&mut out, it.kind, it.word, connector);
                    it.step();
                }
                if !matches!(it.kind, Kind::None | Kind::Punctuation | Kind::Connector) {
                    out.push(connector);
                }
            }
            Kind::Connector => lower(&mut out, before, last, connector),
            Kind::Punctuation => {}
            _ if it.kind != Kind::Number => {
                if !matches!(it.kind, Kind::Connector | Kind::Punctuation) {
                    out.push(connector);
                }
            }
            _ if it.rest.is_empty() => {}
            _ => {
                let digits = it.word;
                it.step();
                if it.kind != Kind::Alphabet {
                    lower(&mut out, Kind::Number, digits, connector);
                    if !matches!(it.kind, Kind::Connector | Kind::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                lower(&mut out, Kind::Number, digits, connector);
                while matches!(it.kind, Kind::Alphabet | Kind::Number) {
                    lower(&mut out, it.kind, it.word, connector);
                    it.step();
                }
                if !matches!(it.kind, Kind::None | Kind::Connector | Kind::Punctuation) {
                    out.push(connector);
                }
            }
        }
    }
    lower(&mut out, it.kind, it.word, connector);
    out
}

fn one(mut changed: impl Iterator<Item = char>, it: char) -> char {
    match (changed.next(), changed.next()) {
        (Some(changed), None) => changed,
        _ => it,
    }
}

/// `first_name` as `FirstName`.
pub(super) fn pascal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut now = None;
    let mut upper_row = false;
    for it in chars.by_ref() {
        if is_connector(it) {
            out.push(it);
            now = None;
            continue;
        }
        upper_row = it.is_uppercase();
        now = Some(one(it.to_uppercase(), it));
        break;
    }
    let Some(mut now) = now else {
        // Only connectors: the last of them is written twice, as xstrings does.
        return match text.chars().next_back() {
            Some(last) => {
                out.push(last);
                out
            }
            None => out,
        };
    };
    for it in chars {
        let before = now;
        now = it;
        if is_connector(now) && is_connector(before) {
            out.push(before);
            continue;
        }
        if is_connector(before) {
            upper_row = now.is_uppercase();
            now = one(now.to_uppercase(), now);
        } else {
            if upper_row {
                if now.is_uppercase() {
                    now = one(now.to_lowercase(), now);
                } else {
                    upper_row = false;
                }
            }
            out.push(before);
        }
    }
    out.push(now);
    out
}
