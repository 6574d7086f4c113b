//! The answer to an API server that asks for another version: what a conversion webhook says.

use serde_json::{Value, json};

use super::convert;

/// Answers a `ConversionReview` of `apiextensions.k8s.io/v1` or `v1beta1` in the version in which it was asked.
/// All objects are converted or none is.
pub fn review(request: &Value) -> Value {
    let asked = &request["request"];
    let wanted = asked["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = asked["objects"].as_array().cloned().unwrap_or_default();
    let converted: Result<Vec<Value>, _> = objects
        .into_iter()
        .map(|mut object| convert(&mut object, wanted).map(|()| object))
        .collect();
    let response = match converted {
        Ok(objects) => json!({ "uid": asked["uid"], "convertedObjects": objects, "result": { "status": "Success" } }),
        Err(error) => json!({
            "uid": asked["uid"],
            "convertedObjects": [],
            "result": { "status": "Failure", "message": error.to_string() },
        }),
    };
    json!({ "kind": "ConversionReview", "apiVersion": request["apiVersion"], "response": response })
}
