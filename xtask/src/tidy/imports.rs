//! Imports inside a crate: files that need each other in a circle can only be read together, so a circle has to be
//! small. A file is a module; what its tests import does not count, and neither does `mod child;` alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;

use super::Source;

/// Crates that are held to it, by the folder of their sources, and how many files may be in a circle.
const LARGEST: &[(&str, usize)] = &[("kube/api/src/", 6)];

pub fn findings(sources: &[Source]) -> Vec<String> {
    let judge = |(folder, most): &(&str, usize)| {
        if !sources.iter().any(|it| it.path.starts_with(folder)) {
            return vec![format!(
                "{folder}: no sources; name the folder in xtask/src/tidy/imports.rs"
            )];
        }
        let circles = circles(folder, sources);
        let large = circles.into_iter().filter(|it| it.len() > *most);
        large
            .map(|it| {
                format!(
                    "{folder}: {} files import each other in a circle (at most {most}): {}",
                    it.len(),
                    it.join(" ")
                )
            })
            .collect::<Vec<_>>()
    };
    LARGEST.iter().flat_map(judge).collect()
}

/// A module by its path from the root of its crate.
type Module = Vec<String>;

/// Every circle of more than one file, the largest first.
fn circles(folder: &str, sources: &[Source]) -> Vec<Vec<String>> {
    let files: BTreeMap<Module, &Source> = sources
        .iter()
        .filter(|it| !it.is_test())
        .filter_map(|it| Some((module(it.path.strip_prefix(folder)?)?, it)))
        .collect();
    let edges: BTreeMap<&Module, BTreeSet<&Module>> = files
        .iter()
        .map(|(module, it)| (module, imports(module, it, &files)))
        .collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = edges.keys().map(|it| (*it, reach(it, &edges))).collect();
    let mut seen = BTreeSet::new();
    let mut circles = vec![];
    for module in files.keys() {
        let circle: Vec<&Module> = reached[module]
            .iter()
            .copied()
            .filter(|it| reached[it].contains(module))
            .collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            circles.push(
                circle
                    .into_iter()
                    .map(|it| files[it].path[folder.len()..].to_owned())
                    .collect(),
            );
        }
    }
    circles.sort_by_key(|it: &Vec<String>| std::cmp::Reverse(it.len()));
    circles
}

/// The module of a file below `src`.
fn module(path: &str) -> Option<Module> {
    let mut parts: Module = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|it| it == "mod" || it == "lib") {
        parts.pop();
    }
    Some(parts)
}

/// All that a module needs, directly or not.
fn reach<'a>(from: &Module, edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = edges[from].iter().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(&edges[module]);
        }
    }
    reached
}

/// The modules that a file names.
fn imports<'a>(own: &Module, source: &Source, files: &'a BTreeMap<Module, &Source>) -> BTreeSet<&'a Module> {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"//[^\n]*").expect("a constant"));
    static TESTS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"#\[cfg\(test\)\]\nmod \w+ \{").expect("a constant"));
    static OF_TESTS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"#\[cfg\(test\)\]\s*(pub(\(\w+\))? )?(mod|use) [^;]*;").expect("a constant"));
    static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse ([^;]+);").expect("a constant"));
    static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[a-z_]\w*(::\w+)+").expect("a constant"));
    let code = TESTS.split(&source.text).next().unwrap_or_default();
    let code = COMMENT.replace_all(code, "");
    let code = OF_TESTS.replace_all(&code, "");
    // What a first word stands for, besides `crate`, `super` and `self`: a child, or a module that was imported.
    let mut words: BTreeMap<String, Module> = BTreeMap::new();
    for child in files
        .keys()
        .filter(|it| it.len() == own.len() + 1 && it.starts_with(own))
    {
        words.insert(child[own.len()].clone(), child.clone());
    }
    let mut found = BTreeSet::new();
    for tree in USE.captures_iter(&code) {
        for path in expand(&tree[1].split_whitespace().collect::<Vec<_>>().join(" ")) {
            let (path, name) = path.split_once(" as ").unwrap_or((&path, ""));
            let Some(whole) = absolute(own, path, &words) else {
                continue;
            };
            if let (Some(last), true) = (whole.last(), files.contains_key(&whole)) {
                let word = if name.is_empty() { last.clone() } else { name.to_owned() };
                words.insert(word, whole.clone());
            }
            found.extend(nearest(&whole, files));
        }
    }
    for path in PATH.find_iter(&USE.replace_all(&code, "")) {
        let whole = absolute(own, path.as_str(), &words);
        found.extend(whole.and_then(|it| nearest(&it, files)));
    }
    found.retain(|it| *it != own);
    found
}

/// Every path of a tree of imports.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.trim_end_matches("::self").to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |it| it.0);
    let (mut depth, mut start, mut parts) = (0usize, 0, vec![]);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|it| !it.trim().is_empty());
    parts.flat_map(|it| expand(&format!("{before}{}", it.trim()))).collect()
}

/// A path from the root of the crate; `None` of one into another crate.
fn absolute(own: &Module, path: &str, words: &BTreeMap<String, Module>) -> Option<Module> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut whole = match parts.next()? {
        "crate" => vec![],
        "self" => own.clone(),
        "super" => own[..own.len().checked_sub(1)?].to_vec(),
        word => words.get(word)?.clone(),
    };
    while parts.next_if_eq(&"super").is_some() {
        whole.pop();
    }
    whole.extend(parts.map(str::to_owned));
    Some(whole)
}

/// The file that a path leads to: of its beginnings that are modules the longest.
fn nearest<'a>(path: &Module, files: &'a BTreeMap<Module, &Source>) -> Option<&'a Module> {
    let beginnings = (0..=path.len()).rev();
    beginnings
        .filter_map(|length| files.get_key_value(&path[..length]))
        .map(|it| it.0)
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("kube/api/src/{path}"),
            text: (*text).to_owned(),
        };
        super::circles("kube/api/src/", &files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn files_that_need_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::{b::{self, Thing}, other};\n"),
            ("b.rs", "fn f() { crate::c::f() }\n"),
            ("c.rs", "use super::a;\n"),
            ("d.rs", "use crate::a;\n"),
        ];
        assert_eq!(circles(&files), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn cycles_through_directories_and_imported_modules_are_found() {
        let files = [
            ("verbs/mod.rs", "pub mod get;\n"),
            ("verbs/get.rs", "use crate::dispatch::answer;\n"),
            ("dispatch.rs", "use crate::verbs;\nfn f() { verbs::get::get() }\n"),
        ];
        assert_eq!(circles(&files), [["dispatch.rs", "verbs/get.rs"]]);
        let parent = [
            ("a/mod.rs", "mod b;\nfn f() { b::g() }\n"),
            ("a/b.rs", "use super::f;\n"),
        ];
        assert_eq!(circles(&parent), [["a/mod.rs", "a/b.rs"]]);
    }

    #[test]
    fn tests_comments_and_declarations_make_no_circle() {
        let files = [
            (
                "a/mod.rs",
                "mod b;\n// crate::c\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n",
            ),
            ("a/b.rs", "use super::Thing;\n"),
            ("c.rs", "use crate::a::Thing;\n"),
            ("a/tests.rs", "use crate::c;\n"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn a_circle_that_is_too_large_is_named() {
        let names: Vec<String> = (0..7).map(|it| format!("kube/api/src/m{it}.rs")).collect();
        let sources: Vec<Source> = names
            .iter()
            .enumerate()
            .map(|(at, path)| Source {
                path: path.clone(),
                text: format!("use crate::m{};\n", (at + 1) % 7),
            })
            .collect();
        assert_eq!(findings(&sources).len(), 1);
        assert!(findings(&sources[1..]).is_empty());
        assert_eq!(findings(&[]).len(), 1);
    }
}
