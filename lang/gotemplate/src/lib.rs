//! Go's text/template, the functions of sprig and Helm, and Helm's charts.
//!
//! Add-ons for Open Cluster Management bring their manifests as Go templates or Helm charts; this renders both, byte
//! for byte as Go and Helm do, messages included. Whoever writes a template knows its language from there.
//!
//! * [`Engine`] and [`Template`]: a text and its data. [`Functions`] are the sets a template may call.
//! * [`helm::Chart`]: a chart and its values. [`helm::merge_values`] lays one set of values over another.
//! * [`SemanticVersion`] and [`VersionConstraints`]: versions of charts and ranges of them.
//!
//! A template is a program of somebody else: its depth, its steps and its output are bounded (`limits`), it reads no
//! environment, no file and no network, and time and randomness come from the caller.

mod addon_functions;
mod builtins;
pub mod encodings;
mod engine;
mod exec;
pub mod file_pattern;
mod functions;
mod gofmt;
pub mod helm;
mod json;
mod lex;
mod limits;
mod node;
mod parse;
mod sprig;
mod strconv;
mod value;
mod yaml;
mod yaml_lines;

pub use engine::{Engine, MissingKey, Random, Template, TemplateClock, TemplateError};
pub use exec::{Call, Host};
pub use functions::{Functions, Param};
pub use sprig::semver::{SemanticVersion, VersionConstraints};
pub use value::{Elem, IntType, List, Map, Numbers, Object, Value};

/// Base64 with padding.
pub(crate) fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Go's `url.QueryEscape`.
pub(crate) fn query_escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
