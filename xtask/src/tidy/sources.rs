//! Rules on the text of the sources. They read lines, not syntax: a rule that text cannot see is not here.

use std::sync::LazyLock;

use regex::Regex;

use super::Source;

/// Rooms that hold anything hold nothing.
const BANNED_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc"];

/// The longest a file may get before it does two things.
const LINES_MAX: usize = 900;

/// Where `kube::Api` may be written through. The executor and the install of fixed objects at start are the rule;
/// access reviews are questions that Kubernetes wants as a POST; the others face people or stand for Kubernetes itself.
const WRITERS: &[&str] = &[
    "ocm/reconcile/src/execute",
    "ocm/reconcile/src/install",
    "ocm/reconcile/src/access",
    "cli/drover/src/command",
    "cli/installation/",
    // What a policy enforces is tried, looked at and written, object by object.
    "addons/config-policy/src/controller/",
    // What a hub tells its API server of itself when it starts.
    "cli/webhooks/",
    // Anybody's code, which has no executor.
    "examples/embedded-api/",
    "kube/node/",
    "tests/testkit/",
    "tests/stories/",
    "tests/benches/",
    "tests/conformance/",
];

/// Crates whose decisions are plain functions on plain data.
const DECIDERS: &[&str] = &[
    "ocm/registration/",
    "ocm/work/",
    "ocm/placement/",
    "ocm/addon/",
    "ocm/credential/",
];

pub fn findings(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(judge).collect()
}

/// All that one file breaks.
fn judge(source: &Source) -> Vec<String> {
    // The rules name what they forbid.
    if source.path.starts_with("xtask/src/tidy/") {
        return vec![];
    }
    let mut found = vec![];
    names(&source.path, &mut found);
    marks(source, &mut found);
    let length = source.text.lines().count();
    if source.path.contains("/src/") && length > LINES_MAX {
        found.push(format!(
            "{}: {length} lines; a file does one thing (at most {LINES_MAX})",
            source.path
        ));
    }
    if !source.is_test() {
        writes(&source.path, &source.code(), &mut found);
        decisions(&source.path, &source.code(), &mut found);
    }
    found
}

fn names(path: &str, found: &mut Vec<String>) {
    let bad = path
        .split('/')
        .map(|part| part.trim_end_matches(".rs"))
        .find(|part| BANNED_NAMES.contains(part));
    found.extend(bad.map(|part| format!("{path}: say what is in {part}")));
}

/// Marks of unfinished work, tests that do not run, and tests that wait for time instead of a state.
fn marks(source: &Source, found: &mut Vec<String>) {
    let path = &source.path;
    static MARKS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b(todo|unimplemented|dbg)!|\b(TODO|FIXME|XXX)\b|#\[ignore").expect("a constant")
    });
    static SLEEP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bsleep\(").expect("a constant"));
    for (number, line) in lines(&source.text) {
        if let Some(mark) = MARKS.find(line) {
            found.push(format!("{path}:{number}: {}", mark.as_str()));
        }
        if source.is_test() && SLEEP.is_match(line) {
            found.push(format!("{path}:{number}: a test waits on a state, never on time"));
        }
    }
}

/// Only the executor writes to an API server.
fn writes(path: &str, code: &str, found: &mut Vec<String>) {
    static USES_API: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\bApi::<|\bApi::(all|namespaced|default_namespaced)|\bApi<").expect("a constant")
    });
    if WRITERS.iter().any(|it| path.starts_with(it)) || !USES_API.is_match(code) {
        return;
    }
    static VERB: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\.(patch|patch_status|patch_metadata|patch_subresource|replace|replace_status|replace_subresource|create|create_subresource|delete_collection|delete|evict|approve|patch_approval)\((&|name|key)[^)]*[,)]",).expect("a constant")
    });
    static PARAMS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b(PostParams|PatchParams|DeleteParams)\b").expect("a constant"));
    if !PARAMS.is_match(code) {
        return;
    }
    for (number, line) in lines(code) {
        if let Some(verb) = VERB.find(line) {
            found.push(format!(
                "{path}:{number}: `{}` writes past the executor; plan a step instead",
                verb.as_str()
            ));
        }
    }
}

/// `plan` and `conclude`, and every file of a deciding crate that awaits nothing, know no client, clock or chance.
fn decisions(path: &str, code: &str, found: &mut Vec<String>) {
    if !DECIDERS.iter().any(|it| path.starts_with(it)) {
        return;
    }
    static WORLD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\bTimestamp::now\(|\bSystemTime::now\(|\bInstant::now\(|\bZoned::now\(|\brand::|\bUuid::new_v4\(")
            .expect("a constant")
    });
    static CLIENT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\bClient\b|\bApi<|\bApi::|\.await\b").expect("a constant"));
    let noun = !code.contains("async ") && !code.contains(".await");
    for (number, line) in lines(code) {
        if let (true, Some(it)) = (noun, WORLD.find(line)) {
            found.push(format!(
                "{path}:{number}: `{}`; time and chance arrive as arguments",
                it.as_str()
            ));
        }
    }
    for name in ["plan", "conclude"] {
        let Some((first, body)) = function(code, name) else {
            continue;
        };
        for (number, line) in lines(body) {
            if let Some(it) = WORLD.find(line).or_else(|| CLIENT.find(line)) {
                found.push(format!(
                    "{path}:{}: `{}` in {name}; it decides on what was seen",
                    first + number - 1,
                    it.as_str()
                ));
            }
        }
    }
}

/// The text of a function from its signature to the brace that closes it, and the line it starts on.
fn function<'a>(code: &'a str, name: &str) -> Option<(usize, &'a str)> {
    let start = Regex::new(&format!(r"(?m)^(\s*)(pub(\([a-z]+\))? )?fn {name}[(<]"))
        .ok()?
        .find(code)?
        .start();
    let rest = &code[start..];
    let mut depth = 0usize;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some((code[..start].lines().count() + 1, &rest[..=at])),
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Lines that are not comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//") || line.contains("TODO") || line.contains("FIXME"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(path: &str, text: &str) -> Vec<String> {
        super::judge(&Source {
            path: path.to_owned(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn a_room_for_anything_is_found() {
        assert_eq!(judge("ocm/work/src/utils.rs", "").len(), 1);
        assert_eq!(judge("ocm/work/src/helpers/apply.rs", "").len(), 1);
        assert!(judge("ocm/work/src/apply.rs", "").is_empty());
    }

    #[test]
    fn unfinished_work_is_found_even_in_comments() {
        assert_eq!(
            judge("ocm/work/src/a.rs", "fn a() {\n    todo!()\n}\n// FIXME later\n").len(),
            2
        );
        assert_eq!(
            judge("ocm/work/tests/a.rs", "#[ignore]\nfn a() { sleep(1) }\n").len(),
            2
        );
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(judge("ocm/work/src/a.rs", &"\n".repeat(901)).len(), 1);
    }

    #[test]
    fn a_write_past_the_executor_is_found() {
        let text = "let api: Api<Secret> = Api::all(c);\napi.create(&PostParams::default(), &secret).await?;\n";
        assert_eq!(judge("ocm/credential/src/a.rs", text).len(), 1);
        assert!(judge("ocm/reconcile/src/execute.rs", text).is_empty());
    }

    #[test]
    fn a_plan_that_looks_at_the_clock_is_found() {
        let text = "async fn observe() {}\n\npub fn plan(seen: &Seen) -> Plan {\n    if x { }\n    let now = Timestamp::now();\n}\n";
        assert_eq!(
            judge("ocm/work/src/a.rs", text),
            ["ocm/work/src/a.rs:5: `Timestamp::now(` in plan; it decides on what was seen"]
        );
    }
}
