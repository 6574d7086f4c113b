//! The template language of Open Cluster Management policies: Go templates with look-ups into a cluster.
//!
//! A policy is written once for many clusters. What differs is filled in by templates: on the hub with `{{hub … hub}}`
//! for each cluster, on the cluster with `{{ … }}` for each object. Upstream's language is `go-template-utils` v7; this
//! renders the same texts with the same messages.
//!
//! Rendering is synchronous and does no IO. What a template looks up is asked of a [`Source`]; where that does not know
//! yet, the run ends with [`Resolution::Needs`], the caller fetches (and watches) and renders again:
//!
//! ```
//! use policy_template::{Input, KindReply, Query, Reply, Resolution, Source, TemplateContext, TemplateSettings, render};
//!
//! struct Nothing;
//! impl Source for Nothing {
//!     fn kind(&self, _api_version: &str, _kind: &str) -> KindReply {
//!         KindReply::Known { plural: "configmaps".into(), namespaced: true }
//!     }
//!     fn answer(&self, _query: &Query) -> Reply {
//!         Reply::Unknown
//!     }
//! }
//!
//! let settings = TemplateSettings::managed();
//! let object = serde_json::json!({"data": {"a": "{{ 1 | add 1 | toInt }}"}});
//! let made = render(&settings, &Nothing, Input::Json(&object), &TemplateContext::none()).unwrap();
//! assert!(matches!(made, Resolution::Done(it) if it.value["data"]["a"] == 2));
//! let object = serde_json::json!({"a": r#"{{ fromConfigMap "ns" "n" "k" }}"#});
//! let made = render(&settings, &Nothing, Input::Json(&object), &TemplateContext::none()).unwrap();
//! assert!(matches!(made, Resolution::Needs(it) if it[0].name == "n"));
//! ```
//!
//! A template is a program of somebody else. Its steps, its depth and its texts are bounded by `gotemplate`; how many
//! things it may look up is bounded here ([`QUERIES_MAX`]). It reads no environment, no file and no network.

mod context;
mod encryption;
mod functions;
mod message;
mod name_patterns;
mod passes;
mod printed;
mod render;
mod roles;
mod settings;
mod source;

pub use context::TemplateContext;
pub use encryption::TemplateKeys;
pub use functions::QUERIES_MAX;
pub use gotemplate::encodings::{kubernetes_yaml_of, read_kubernetes_yaml};
pub use message::render_message;
pub use name_patterns::NamePatterns;
pub use passes::{has_template, uses_encryption};
pub use printed::{base64_error, printed, type_name};
pub use render::{Input, Resolution, ResolutionCause, ResolutionError, Resolved, Unresolved, render};
pub use settings::{AllowedClusterScoped, Delimiters, TemplateEncryption, TemplateSettings};
pub use source::{Answers, KindReply, LookupError, Query, Reply, Source};

#[cfg(test)]
mod tests;
