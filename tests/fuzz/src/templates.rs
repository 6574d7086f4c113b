//! Go templates with the functions of sprig, of Helm and of add-ons.

use super::{part, text};
use gotemplate::{Engine, Functions, MissingKey};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Less than a template may do otherwise: what is in proportion ends soon then.
const WORK_MAX: u64 = 1_000_000;

static ENGINES: LazyLock<[Engine; 3]> = LazyLock::new(|| {
    let still = |functions| {
        Engine::new(functions)
            .clock(|| jiff::Timestamp::UNIX_EPOCH)
            .random(|bytes| bytes.fill(7))
            .work_max(WORK_MAX)
    };
    [
        still(Functions::sprig()),
        still(Functions::helm()).missing_key(MissingKey::Zero),
        still(Functions::builtin()).missing_key(MissingKey::Error),
    ]
});

/// The data on the first line, and a template.
pub fn templates(data: &[u8]) {
    let (values, template) = part(data);
    let values: Value = serde_json::from_slice(values).unwrap_or_else(|_| json!({"a": 1}));
    for engine in &*ENGINES {
        if let Ok(template) = engine.parse("t", text(template)) {
            let once = template.render(&values);
            let _ = template.names();
            assert_eq!(once.is_ok(), template.render(&values).is_ok());
        }
    }
}
