//! Programs of other languages.

use crate::{
    check::{Check, should},
    cx::Cx,
};
use std::path::Path;

/// Python with Kubernetes' client for it, as `.ci/run` makes it of `tests/conformance/python/requirements.txt`.
const PYTHON: &str = "python-kubernetes";

pub fn checks() -> Vec<Check> {
    vec![
        should(
            "206",
            "a program of Kubernetes' client for Python reads, writes, pages, watches, applies and defines",
            python,
        )
        .with_program(PYTHON),
    ]
}

async fn python(c: Cx) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/python/client.py");
    let (namespace, group) = (c.namespace().await, c.group());
    let ran = c
        .run(PYTHON, &[program.to_str().unwrap(), &namespace, &group])
        .await
        .ok();
    for step in [
        "objects",
        "deployments",
        "watches",
        "definitions",
        "rights",
        "manifests",
    ] {
        assert!(ran.out.contains(&format!("{step} ok")), "{step}: {}", ran.out);
    }
}
