//! Reading the conditions of any object.

use kube::core::DynamicObject;
use serde_json::Value;

/// One condition, borrowed from its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionRef<'a> {
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Why, in one word.
    pub reason: &'a str,
    /// Why, for people.
    pub message: &'a str,
    /// The generation the condition was written for, where its author says so.
    pub observed_generation: Option<i64>,
}

impl<'a> ConditionRef<'a> {
    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// The message, or the reason where the author gave no message.
    pub fn says(&self) -> &'a str {
        if self.message.is_empty() {
            self.reason
        } else {
            self.message
        }
    }
}

/// The condition of type `kind` among `conditions`.
pub fn find<'a>(conditions: &'a Value, kind: &str) -> Option<ConditionRef<'a>> {
    let text = |value: &'a Value, field: &str| value[field].as_str().unwrap_or_default();
    let it = conditions.as_array()?.iter().find(|it| it["type"] == kind)?;
    Some(ConditionRef {
        status: text(it, "status"),
        reason: text(it, "reason"),
        message: text(it, "message"),
        observed_generation: it["observedGeneration"].as_i64(),
    })
}

/// The condition of type `kind` in the object's status.
pub fn of<'a>(object: &'a DynamicObject, kind: &str) -> Option<ConditionRef<'a>> {
    find(&object.data["status"]["conditions"], kind)
}

/// The status of a condition for a table; empty, as in kubectl's tables, where there is none.
pub fn status(object: &DynamicObject, kind: &str) -> String {
    of(object, kind).map(|it| it.status.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_found_by_its_type() {
        let conditions = json!([
            {"type": "Applied", "status": "True", "reason": "Done", "message": "", "observedGeneration": 2},
            {"type": "Available", "status": "False", "reason": "Gone", "message": "it is gone"},
        ]);
        let applied = find(&conditions, "Applied").unwrap();
        assert!(applied.is_true());
        assert_eq!((applied.says(), applied.observed_generation), ("Done", Some(2)));
        assert_eq!(find(&conditions, "Available").unwrap().says(), "it is gone");
        assert_eq!(find(&conditions, "Degraded"), None);
        assert_eq!(find(&Value::Null, "Applied"), None);
    }
}
