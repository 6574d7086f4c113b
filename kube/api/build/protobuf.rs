//! Makes the table of protobuf messages: field numbers and types, read from the sources
//! of the published crate `k8s-pb`.
//!
//! The crate is in the dependency graph for no platform, so cargo keeps its sources at hand and never compiles its
//! thousands of structs: the decoder needs numbers only.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Writes `messages.txt`: one line per message, its name and then `field:number:type` per field, tab-separated. A type
/// is `s` text, `b` bytes, `i` integer, `t` truth, `d` double or `m=<message>`; `*` before it repeats it, `%` before it
/// makes it the value of a map with text keys.
pub fn write(out: &Path) {
    let root = sources();
    let mut lines = Vec::new();
    for area in ["api", "apimachinery", "apiextensions_apiserver"] {
        read_dir(&root.join(area), &[area.to_owned()], &mut lines);
    }
    lines.sort();
    assert!(
        lines.len() > 500,
        "only {} protobuf messages found in {}",
        lines.len(),
        root.display()
    );
    fs::write(out.join("messages.txt"), lines.join("\n")).expect("the output folder can be written");
}

fn sources() -> PathBuf {
    let cargo = env::var("CARGO").expect("cargo sets CARGO for build scripts");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let package = packages
        .iter()
        .find(|it| it["name"] == "k8s-pb")
        .expect("k8s-pb is a dependency");
    let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a package has a manifest"));
    println!("cargo:rerun-if-changed={}", manifest.display());
    manifest.parent().expect("a manifest is in a folder").join("src")
}

fn read_dir(dir: &Path, module: &[String], lines: &mut Vec<String>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .expect("sources can be read")
        .flatten()
        .map(|it| it.path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let deeper: Vec<String> = module.iter().cloned().chain([name]).collect();
            read_dir(&path, &deeper, lines);
        } else if name == "mod.rs" {
            read_file(&fs::read_to_string(&path).expect("sources can be read"), module, lines);
        }
    }
}

fn read_file(text: &str, module: &[String], lines: &mut Vec<String>) {
    let mut message: Option<String> = None;
    let mut attribute = String::new();
    let mut field = String::new();
    for line in text.lines().map(str::trim).filter(|it| !it.starts_with("//")) {
        if let Some(name) = line
            .strip_prefix("pub struct ")
            .and_then(|it| it.split([' ', '{']).next())
        {
            message = Some(format!("{}.{name}", module.join("/")));
            if line.ends_with("{}") {
                lines.extend(message.take());
            }
        } else if line == "}" {
            lines.extend(message.take());
        } else if let Some(message) = &mut message {
            if line.starts_with("#[prost(") || (!attribute.is_empty() && !attribute.ends_with(")]")) {
                attribute.push_str(line);
            } else if !attribute.is_empty() {
                field.push_str(line);
                if field.ends_with(',') && field.matches('<').count() == field.matches('>').count() {
                    message.push('\t');
                    message.push_str(&describe(&attribute, &field, module));
                    attribute.clear();
                    field.clear();
                }
            }
        }
    }
}

fn describe(attribute: &str, field: &str, module: &[String]) -> String {
    let inner = attribute.trim_start_matches("#[prost(").trim_end_matches(")]");
    let tag = inner
        .rsplit("tag = \"")
        .next()
        .and_then(|it| it.split('"').next())
        .expect("a field has a number");
    let (name, ty) = field
        .trim_start_matches("pub ")
        .split_once(':')
        .expect("a field has a type");
    let scalar = |word: &str| match word {
        "string" => "s".to_owned(),
        "bool" => "t".to_owned(),
        "double" | "float" => "d".to_owned(),
        "int32" | "int64" | "uint32" | "uint64" => "i".to_owned(),
        it if it.starts_with("bytes") => "b".to_owned(),
        "message" => format!("m={}", resolve(ty, module)),
        other => panic!("a protobuf type that the decoder does not know: {other} in {attribute}"),
    };
    let kind = match inner.strip_prefix("btree_map = \"") {
        Some(map) => {
            let value = map
                .split('"')
                .next()
                .and_then(|it| it.split(',').nth(1))
                .expect("a map has a value type");
            format!("%{}", scalar(value.trim()))
        }
        None => {
            let first = inner
                .split(',')
                .next()
                .unwrap_or_default()
                .split('=')
                .next()
                .unwrap_or_default()
                .trim();
            let repeated = inner.split(',').any(|it| it.trim() == "repeated");
            format!("{}{}", if repeated { "*" } else { "" }, scalar(first))
        }
    };
    format!("{}:{tag}:{kind}", name.trim().trim_start_matches("r#"))
}

/// The message that the innermost type names, with `super::` followed.
fn resolve(ty: &str, module: &[String]) -> String {
    let ty = ty.trim().trim_end_matches(',').trim_end_matches(['>', ' ', ',']);
    let path = ty.rsplit(['<', ',']).next().unwrap_or_default().trim();
    let path = path.trim_start_matches("::prost::alloc::boxed::Box");
    let mut at: Vec<&str> = module.iter().map(String::as_str).collect();
    let mut name = "";
    let parts: Vec<&str> = path.split("::").map(|it| it.trim().trim_start_matches("r#")).collect();
    for (index, part) in parts.iter().enumerate() {
        match *part {
            "super" => drop(at.pop()),
            last if index + 1 == parts.len() => name = last,
            module => at.push(module),
        }
    }
    format!("{}.{name}", at.join("/"))
}
