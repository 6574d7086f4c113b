//! Protobuf bodies of built-in kinds, and what is done with an object once it was read.

use super::{kinds, part, text};
use kube_api::protobuf;

/// `VERSION KIND` of the path on the first line, and the body.
pub fn protobuf(data: &[u8]) {
    let (line, body) = part(data);
    let default = text(line).split_once(' ').unwrap_or(("v1", "Pod"));
    let Ok(mut value) = protobuf::to_json(body, default) else {
        return;
    };
    // What was read is a value that JSON can say.
    let json = serde_json::to_vec(&value).expect("a value serializes");
    let _ = serde_json::from_slice::<serde_json::Value>(&json);
    let (version, kind) = (value["apiVersion"].take(), value["kind"].take());
    let (Some(version), Some(kind)) = (version.as_str(), kind.as_str()) else {
        return;
    };
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    value["apiVersion"] = version.into();
    value["kind"] = kind.into();
    kinds::live_through((group, version, kind), value);
}
