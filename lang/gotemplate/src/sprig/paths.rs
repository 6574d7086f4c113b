//! Slash-separated paths, cleaned and cut as Go's `path` does.

use crate::functions::Functions;
use crate::gofmt::display;
use crate::value::Value;

pub(crate) fn add(functions: &mut Functions) {
    let mut both = |name: &'static str, os: &'static str, body: fn(&str) -> Value| {
        functions.add(name, "string", move |_, a| Ok(body(&display(&a[0]))));
        functions.alias(os, name);
    };
    both("base", "osBase", |path| Value::from(base(path)));
    both("dir", "osDir", |path| {
        let end = path.rfind('/').map_or(0, |at| at + 1);
        Value::from(clean(&path[..end]))
    });
    both("clean", "osClean", |path| Value::from(clean(path)));
    both("ext", "osExt", |path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        Value::from(name.rfind('.').map_or("", |at| &name[at..]))
    });
    both("isAbs", "osIsAbs", |path| Value::Bool(path.starts_with('/')));
}

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return "/";
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}
