//! Messages that a policy words itself.

use std::sync::OnceLock;

use gotemplate::{Engine, Functions};
use serde_json::Value;

/// The functions of sprig but `env` and `expandenv` (upstream: `AvailableSprigFunctions`).
pub(crate) fn sprig_functions() -> Functions {
    static MADE: OnceLock<Functions> = OnceLock::new();
    let make = || {
        let mut functions = Functions::sprig();
        // Nobody resolves names here: what a template learns of the network comes from the cluster.
        functions.add("getHostByName", "string", |_, _| Ok("".into()));
        functions
    };
    MADE.get_or_init(make).clone()
}

/// Renders the `customMessage` of a ConfigurationPolicy: a Go template over `data` with the functions of sprig, without
/// look-ups (config-policy-controller: `customComplianceMessage`).
///
/// # Errors
/// `failed to parse custom template: …` or `failed to execute: …`, with Go's words behind it.
pub fn render_message(template: &str, data: &Value) -> Result<String, String> {
    let engine = Engine::new(sprig_functions());
    let template = engine
        .parse("custom-msg", template)
        .map_err(|why| format!("failed to parse custom template: {why}"))?;
    template.render(data).map_err(|why| format!("failed to execute: {why}"))
}
