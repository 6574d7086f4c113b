//! Every reconciler says what it does, has a name of its own, and no condition has two authors.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::Source;

/// What the header of a reconciler's file tells at least; what it reads may be its root alone.
const HEADER: &[&str] = &["writes:", "never:"];

/// Conditions that two files may set, and why.
const SHARED: &[(&str, &str)] = &[
    (
        "managed_cluster::AVAILABLE",
        "the hub says Unknown when heartbeats stop; the agent says everything else",
    ),
    (
        "managed_cluster_add_on::AVAILABLE",
        "the agent judges by the lease, the add-on's manager in mode Customized; the hub says Unknown with its cluster",
    ),
];

/// How long the file of a reconciler may get before its tests: header, watches, what is seen, observe and plan,
/// on one screen.
const SCREEN: usize = 150;

/// How many reconcilers in a hundred have to fit on a screen.
const FIT_PERCENT: usize = 90;

pub fn findings(sources: &[Source]) -> Vec<String> {
    let code: Vec<&Source> = sources
        .iter()
        .filter(|it| ["cli/", "kube/", "ocm/"].iter().any(|of| it.path.starts_with(of)) && !it.is_test())
        .collect();
    let mut found = vec![];
    let (mut all, mut longer) = (0, vec![]);
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let implements = Regex::new(r"(?m)^impl(<[^>]*>)? Reconciler for ").expect("a constant");
    let name = Regex::new(r#"const NAME: &'static str = "([^"]+)""#).expect("a constant");
    for it in code.iter().filter(|it| implements.is_match(&it.code())) {
        let lines = it.code().trim_end().lines().count();
        all += 1;
        if lines > SCREEN {
            longer.push(format!(
                "{}: {lines} lines; what a reconciler sees and plans fits on one screen ({SCREEN} lines)",
                it.path
            ));
        }
        // A reconciler too big for one file keeps its header where it decides: in plan.rs beside it.
        let folder = it.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = code.iter().find(|other| other.path == format!("{folder}/plan.rs"));
        let header = [it.header(), beside.map(|it| it.header()).unwrap_or_default()]
            .concat()
            .to_lowercase();
        let missing: Vec<_> = HEADER.iter().filter(|word| !header.contains(**word)).copied().collect();
        if !missing.is_empty() {
            found.push(format!(
                "{}: the header of a reconciler tells its {}",
                it.path,
                missing.join(" ")
            ));
        }
        for name in name.captures_iter(&it.code()) {
            if let Some(other) = names.insert(name[1].to_owned(), &it.path) {
                found.push(format!(
                    "{}: `{}` is the name of the reconciler in {other}",
                    it.path, &name[1]
                ));
            }
        }
    }
    if all == 0 {
        found.push("no reconciler was found; say in xtask/src/tidy/reconcilers.rs how one is written".to_owned());
    }
    if longer.len() * 100 > all * (100 - FIT_PERCENT) {
        found.extend(longer);
    }
    found.extend(authors(&code));
    found
}

/// Conditions that more than one file sets.
fn authors(code: &[&Source]) -> Vec<String> {
    let wanted = Regex::new(r"\bwanted\(\s*([a-z_]+::[A-Z_]+)").expect("a constant");
    let mut authors: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for it in code {
        for condition in wanted.captures_iter(&it.code()) {
            authors.entry(condition[1].to_owned()).or_default().insert(&it.path);
        }
    }
    authors.retain(|condition, paths| paths.len() > 1 && SHARED.iter().all(|(shared, _)| shared != condition));
    let line = |(condition, paths): (String, BTreeSet<&str>)| {
        format!(
            "{condition} is set in {}; a condition has one author",
            paths.into_iter().collect::<Vec<_>>().join(" and ")
        )
    };
    authors.into_iter().map(line).collect()
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

    const HEADED: &str =
        "//! Root: A. Writes: C. Never: D.\nimpl Reconciler for X {\n    const NAME: &'static str = \"x\";\n}\n";

    #[test]
    fn a_reconciler_that_omits_its_writes_is_reported() {
        assert!(findings(&[source("ocm/work/src/a.rs", HEADED)]).is_empty());
        assert_eq!(findings(&[]).len(), 1);
        let silent = HEADED.replace("Writes: C. ", "");
        assert_eq!(findings(&[source("ocm/work/src/a.rs", &silent)]).len(), 1);
    }

    #[test]
    fn nine_in_ten_reconcilers_fit_on_a_screen() {
        let of = |name: usize, lines: usize| {
            let text = HEADED.replace("\"x\"", &format!("\"x{name}\"")) + &"// code\n".repeat(lines);
            source(&format!("ocm/work/src/{name}.rs"), &text)
        };
        let mut all: Vec<Source> = (0..9).map(|name| of(name, 0)).collect();
        all.push(of(9, 200));
        assert!(findings(&all).is_empty());
        all.push(of(10, 200));
        assert_eq!(findings(&all).len(), 2);
    }

    #[test]
    fn a_reconciler_may_say_it_beside_itself_in_plan() {
        let beside = [
            source("ocm/work/src/agent/turn.rs", "impl Reconciler for X {\n"),
            source("ocm/work/src/agent/plan.rs", "//! Writes: C. Never: D.\n"),
        ];
        assert!(findings(&beside).is_empty());
    }

    #[test]
    fn two_reconcilers_of_one_name_are_found() {
        let two = [source("ocm/work/src/a.rs", HEADED), source("ocm/work/src/b.rs", HEADED)];
        assert_eq!(findings(&two).len(), 1);
    }

    #[test]
    fn a_condition_with_two_authors_is_found() {
        let text = "wanted(\n    manifest_work::APPLIED, true";
        let two = [source("ocm/work/src/a.rs", text), source("ocm/hub/src/b.rs", text)];
        assert_eq!(authors(&two.each_ref()).len(), 1);
        let agreed = text.replace("manifest_work::APPLIED", "managed_cluster::AVAILABLE");
        let two = [
            source("ocm/work/src/a.rs", &agreed),
            source("ocm/hub/src/b.rs", &agreed),
        ];
        assert!(authors(&two.each_ref()).is_empty());
    }
}
