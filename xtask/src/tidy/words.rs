//! Rules on names and comments: what a reader greps for means one thing, and what a test holds is said
//! in one short sentence.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;

use super::Source;

/// How many public types of the workspace may have the same name.
const SAME_NAME_MAX: usize = 2;

/// Names that say the same everywhere: a crate's options, its error, and what a reconciler has seen.
const OF_EVERYBODY: &[&str] = &["Options", "Error", "Seen"];

/// The longest a test's name may get, in words.
const TEST_WORDS_MAX: usize = 10;

/// The longest a comment may get, in columns; rustfmt holds the code to it.
const COLUMNS_MAX: usize = 120;

pub fn findings(sources: &[Source]) -> Vec<String> {
    let sources: Vec<&Source> = sources
        .iter()
        .filter(|it| !it.path.starts_with("xtask/src/tidy/"))
        .collect();
    let mut found = types(&sources);
    for source in sources {
        test_names(source, &mut found);
        comments(source, &mut found);
    }
    found
}

/// Public types whose name stands too often.
fn types(sources: &[&Source]) -> Vec<String> {
    static TYPE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)^ *pub(?:\([a-z: ]+\))? (?:struct|enum|trait|type|union) (\w+)").expect("a constant")
    });
    let mut places: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|it| !it.is_test()) {
        for name in TYPE.captures_iter(&source.code()) {
            places.entry(name[1].to_owned()).or_default().insert(&source.path);
        }
    }
    places.retain(|name, paths| paths.len() > SAME_NAME_MAX && !OF_EVERYBODY.contains(&name.as_str()));
    let line = |(name, paths): (String, BTreeSet<&str>)| {
        let paths = paths.into_iter().collect::<Vec<_>>().join(", ");
        format!("{name} is a type in {paths}; a public name stands at most {SAME_NAME_MAX} times")
    };
    places.into_iter().map(line).collect()
}

fn test_names(source: &Source, found: &mut Vec<String>) {
    static TEST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"#\[(?:tokio::)?test[^\n]*\n(?: *#\[[^\n]*\n)* *(?:async )?fn (\w+)").expect("a constant")
    });
    for test in TEST.captures_iter(&source.text) {
        let words = test[1].split('_').filter(|it| !it.is_empty()).count();
        if words > TEST_WORDS_MAX {
            found.push(format!(
                "{}: {} has {words} words; a test's name is one sentence of at most {TEST_WORDS_MAX}",
                source.path, &test[1]
            ));
        }
    }
}

fn comments(source: &Source, found: &mut Vec<String>) {
    // Code and pictures stand between fences, and rustfmt has its say about the one.
    let mut fenced = false;
    for (number, line) in source.text.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let text = text.trim_start_matches(['/', '!', ' ']);
        fenced ^= text.starts_with("```");
        // A link or a line of a table cannot be broken.
        let whole = fenced || text.contains("://") || text.starts_with('|');
        if line.chars().count() > COLUMNS_MAX && !whole {
            found.push(format!(
                "{}:{}: a comment wraps at {COLUMNS_MAX} columns",
                source.path,
                number + 1
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_public_type_name_stands_at_most_twice() {
        let text = "pub struct World;\n";
        let three = ["ocm/a.rs", "ocm/b.rs", "ocm/c.rs"].map(|path| source(path, text));
        assert!(findings(&three[..2]).is_empty());
        assert_eq!(findings(&three).len(), 1);
        let seen = ["ocm/a.rs", "ocm/b.rs", "ocm/c.rs"].map(|path| source(path, "pub(crate) struct Seen;\n"));
        assert!(findings(&seen).is_empty());
    }

    #[test]
    fn a_long_test_name_is_found() {
        let text = "#[tokio::test]\nasync fn a_b_c_d_e_f_g_h_i_j() {}\n";
        assert!(findings(&[source("ocm/a.rs", text)]).is_empty());
        let longer = text.replace("a_b", "a_a_b");
        assert_eq!(findings(&[source("ocm/a.rs", &longer)]).len(), 1);
    }

    #[test]
    fn a_long_comment_is_found() {
        let text = format!("    // {}\n", "word ".repeat(30));
        assert_eq!(findings(&[source("ocm/a.rs", &text)]).len(), 1);
        let link = format!("/// <https://example.com/{}>\n", "a".repeat(120));
        assert!(findings(&[source("ocm/a.rs", &link)]).is_empty());
    }
}
