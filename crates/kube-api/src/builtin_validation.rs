//! Interim: takes part until the validation of built-in kinds lands; whoever lands it replaces this file.
use kube_store::status::FieldError;
use serde_json::Value;
pub fn validate(_: &str, _: &str, _: &Value, _: Option<&Value>) -> Vec<FieldError> {
    Vec::new()
}
pub use kube_store::schema::structural::default_crd;
pub fn check_crd(_: &Value) -> Vec<FieldError> {
    Vec::new()
}
