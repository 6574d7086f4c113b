use std::{
    io::Write,
    process::{Command, Stdio},
};

use super::IgnoreRules;

/// Whether a file is left out, by itself or with a folder above it.
fn hidden(rules: &str, path: &str) -> bool {
    let rules = IgnoreRules::parse(rules.as_bytes());
    path.match_indices('/').any(|(at, _)| rules.hides(&path[..at], true)) || rules.hides(path, false)
}

/// Rules, and files that they leave out, and files that they do not.
const CASES: &[(&str, &[&str], &[&str])] = &[
    ("", &[], &["a.yaml"]),
    ("# no rule\n\n   \n", &[], &["a.yaml", "# no rule"]),
    ("a.yaml", &["a.yaml", "x/a.yaml", "a.yaml/b"], &["b.yaml", "aa.yaml"]),
    ("/a.yaml", &["a.yaml"], &["x/a.yaml"]),
    ("x/a.yaml", &["x/a.yaml"], &["y/x/a.yaml", "a.yaml"]),
    ("tests/", &["tests/a.yaml", "x/tests/a.yaml"], &["tests", "x/tests"]),
    (
        "*.yaml\n!keep.yaml",
        &["a.yaml", "x/b.yaml"],
        &["keep.yaml", "x/keep.yaml", "a.yml"],
    ),
    ("x/\n!x/keep.yaml", &["x/keep.yaml"], &["keep.yaml"]),
    ("**/a", &["a", "x/a", "x/y/a"], &["b", "x/ab"]),
    ("a/**", &["a/b", "a/x/b"], &["a", "b/a"]),
    ("a/**/b", &["a/b", "a/x/b", "a/x/y/b", "a/b/c"], &["b", "x/a/b"]),
    ("a/*/b", &["a/x/b"], &["a/b", "a/x/y/b"]),
    ("?.yaml", &["a.yaml"], &["ab.yaml"]),
    ("[a-c]1", &["a1", "b1", "c1"], &["d1", "-1"]),
    ("[!a-c]1", &["d1"], &["a1"]),
    ("[^a-c]1", &["d1"], &["a1"]),
    ("[]x]1", &["]1", "x1"], &["y1"]),
    ("[[:digit:]x]", &["1", "x"], &["y"]),
    ("\\#a", &["#a"], &["a"]),
    ("\\!a", &["!a"], &["a"]),
    ("a\\ ", &["a "], &["a"]),
    ("a  ", &["a"], &["a  "]),
    ("\\*", &["*"], &["a"]),
    ("a**b", &["ab", "axb"], &["a/b"]),
    ("*", &["a", "x/b"], &[]),
    ("/*\n!/keep\n", &["a", "x/b"], &["keep", "keep/a"]),
    ("{a,b}", &["{a,b}"], &["a", "b"]),
    ("[a", &[], &["a", "[a", "[ab"]),
    ("a\r\nb\r\n", &["a", "b"], &["c"]),
];

#[test]
fn a_rule_leaves_out_what_gits_would() {
    for (rules, out, stay) in CASES {
        for path in *out {
            assert!(hidden(rules, path), "{rules:?} leaves {path:?} out");
        }
        for path in *stay {
            assert!(!hidden(rules, path), "{rules:?} does not leave {path:?} out");
        }
    }
}

/// What Git says, where there is a Git.
fn git_hides(folder: &std::path::Path, rules: &str, paths: &[&str]) -> Option<Vec<bool>> {
    std::fs::create_dir_all(folder).ok()?;
    std::fs::write(folder.join(".gitignore"), rules).ok()?;
    let run = Command::new("git")
        .arg("init")
        .arg("-q")
        .current_dir(folder)
        .status()
        .ok()?;
    if !run.success() {
        return None;
    }
    let mut child = Command::new("git")
        .args(["check-ignore", "--stdin", "-z", "--no-index", "-v", "-n"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(paths.join("\0").as_bytes()).ok()?;
    let out = child.wait_with_output().ok()?.stdout;
    let fields: Vec<String> = out
        .split(|it| *it == 0)
        .map(|it| String::from_utf8_lossy(it).into_owned())
        .collect();
    // Source, line, pattern, path; without a source no rule matches, and with a `!` the last one takes the path back.
    Some(
        fields
            .chunks_exact(4)
            .map(|it| !it[0].is_empty() && !it[2].starts_with('!'))
            .collect(),
    )
}

#[test]
fn git_agrees_on_every_rule_where_there_is_one() {
    let folder = std::env::temp_dir().join(format!("ignore-rules-{}", std::process::id()));
    for (rules, out, stay) in CASES {
        let paths: Vec<&str> = out.iter().chain(*stay).copied().collect();
        if let Some(theirs) = git_hides(&folder, rules, &paths) {
            assert_eq!(theirs.len(), paths.len(), "{rules:?}");
            for (path, theirs) in paths.iter().zip(theirs) {
                assert_eq!(hidden(rules, path), theirs, "{rules:?} and {path:?}");
            }
        }
    }
    // What is left of a folder of its own is only a leftover.
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn many_stars_take_no_time() {
    let rules = IgnoreRules::parse("*a".repeat(2000).as_bytes());
    assert!(!rules.hides(&"a".repeat(1000), false));
    let rules = IgnoreRules::parse("**/".repeat(2000).as_bytes());
    assert!(!rules.hides(&"a/".repeat(1000), false));
}
