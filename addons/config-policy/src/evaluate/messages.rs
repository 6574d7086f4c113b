//! What is said of the objects of an object template: the reason and the message of its condition.
//! Upstream: config-policy-controller `createStatus`, `batchedEvents`.

use std::collections::{BTreeMap, BTreeSet};

/// Reasons of findings, as `relatedObjects` have them.
pub mod reason {
    /// A wanted object is there, as it is wanted.
    pub const FOUND_AS_EXPECTED: &str = "Resource found as expected";
    /// A wanted object was created.
    pub const CREATED: &str = "K8s creation success";
    /// A wanted object was updated.
    pub const UPDATED: &str = "K8s update success";
    /// An unwanted object was deleted.
    pub const DELETED: &str = "K8s deletion success";
    /// A wanted object is there, but not as it is wanted.
    pub const NO_MATCH: &str = "Resource found but does not match";
    /// A wanted object is not there.
    pub const NOT_FOUND: &str = "Resource not found but should exist";
    /// An unwanted object is there.
    pub const UNWANTED: &str = "Resource found but should not exist";
    /// An unwanted object is not there.
    pub const MISSING_AS_EXPECTED: &str = "Resource not found as expected";
    /// The template of an object has an error.
    pub const TEMPLATE_ERROR: &str = "Error processing template";
    /// An object could not be compared or updated.
    pub const UPDATE_ERROR: &str = "K8s update template error";
    /// Objects could not be deleted.
    pub const CLEANUP_ERROR: &str = "Error cleaning up child objects";
}

/// One thing that is said of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is as it should be.
    pub compliant: bool,
    /// In a few words; see [`reason`].
    pub reason: String,
    /// In a sentence, where the reason does not make one.
    pub message: String,
}

impl Finding {
    /// A finding whose reason says all.
    pub fn of(compliant: bool, reason: &str) -> Self {
        Self::new(compliant, reason, "")
    }

    /// A finding with a sentence of its own.
    pub fn new(compliant: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            compliant,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// What was found of one wanted object, or of all that fit one without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFindings {
    /// The names of the objects.
    pub names: Vec<String>,
    /// What is said, in this order: what was wrong, then what was done.
    pub findings: Vec<Finding>,
}

/// The findings of an object template, by `NAMESPACE/NAME` of what was wanted.
pub type FindingsByObject = BTreeMap<String, ObjectFindings>;

/// What is said at one moment: a finding for each object.
pub type Batch<'a> = BTreeMap<&'a str, (&'a ObjectFindings, &'a Finding)>;

/// The condition of an object template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateVerdict {
    /// Whether all is as it should be.
    pub compliant: bool,
    /// In a few words.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// What is said one after the other. An object about which less is said than about others is said at the end.
pub fn batches(findings: &FindingsByObject) -> Vec<Batch<'_>> {
    let count = findings.values().map(|it| it.findings.len()).max().unwrap_or_default();
    let mut batches = vec![Batch::new(); count];
    for (object, of_object) in findings {
        let first = count - of_object.findings.len();
        for (at, finding) in of_object.findings.iter().enumerate() {
            batches[first + at].insert(object, (of_object, finding));
        }
    }
    batches
}

/// The reasons in their order, with what they are called in a condition and in a sentence. All others come behind them,
/// in the order of their letters.
const SENTENCES: [(&str, &str, &str); 8] = [
    (
        reason::FOUND_AS_EXPECTED,
        "K8s `must have` object already exists",
        "found as specified",
    ),
    (reason::CREATED, reason::CREATED, "was created successfully"),
    (reason::UPDATED, reason::UPDATED, "was updated successfully"),
    (reason::DELETED, reason::DELETED, "was deleted successfully"),
    (reason::NOT_FOUND, "K8s does not have a `must have` object", "not found"),
    (
        reason::NO_MATCH,
        "K8s does not have a `must have` object",
        "found but not as specified",
    ),
    (
        reason::MISSING_AS_EXPECTED,
        "K8s `must not have` object already missing",
        "missing as expected",
    ),
    (reason::UNWANTED, "K8s has a `must not have` object", "found"),
];

/// Sums up a batch. Where something is wrong, only that is said. `resource` is the plural of the kind.
pub fn verdict(resource: &str, batch: &Batch<'_>) -> TemplateVerdict {
    let compliant = batch.values().all(|(_, finding)| finding.compliant);
    let said = batch.iter().filter(|(_, (_, finding))| finding.compliant == compliant);
    let mut by_reason: BTreeMap<&str, Batch<'_>> = BTreeMap::new();
    for (object, it) in said {
        by_reason.entry(&it.1.reason).or_default().insert(object, *it);
    }
    let mut verdict = TemplateVerdict {
        compliant,
        reason: String::new(),
        message: String::new(),
    };
    for (reason, called, verb) in SENTENCES {
        if let Some(objects) = by_reason.remove(reason) {
            verdict.add_reason(called);
            verdict.add_sentences(sentences(resource, verb, &objects));
        }
    }
    for (reason, objects) in by_reason {
        verdict.add_reason(reason);
        for (_, objects) in by_names(&objects) {
            let messages = objects.iter().map(|it| batch[it].1.message.clone());
            verdict.add_sentences(vec![messages.collect::<Vec<_>>().join("; ")]);
        }
    }
    verdict
}

impl TemplateVerdict {
    fn add_reason(&mut self, reason: &str) {
        if !self.reason.is_empty() {
            self.reason.push_str("; ");
        }
        self.reason.push_str(reason);
    }

    fn add_sentences(&mut self, sentences: Vec<String>) {
        for sentence in sentences {
            if !self.message.is_empty() && !self.message.ends_with("; ") {
                self.message.push_str("; ");
            }
            self.message.push_str(&sentence);
        }
    }
}

/// The objects of a batch by the names that they are listed with.
fn by_names<'a>(objects: &Batch<'a>) -> BTreeMap<String, Vec<&'a str>> {
    let mut by_names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (object, (findings, _)) in objects {
        let names = match findings.names.as_slice() {
            [] => object.split_once('/').map_or("", |(_, name)| name).to_owned(),
            names => names.join(", "),
        };
        by_names.entry(names).or_default().push(object);
    }
    by_names
}

/// `pods [a, b] found as specified in namespaces: x, y`: what is the same of several objects is said once.
fn sentences(resource: &str, verb: &str, objects: &Batch<'_>) -> Vec<String> {
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (names, objects) in by_names(objects) {
        let namespaces: BTreeSet<&str> = objects
            .iter()
            .filter_map(|it| it.split_once('/').map(|(namespace, _)| namespace))
            .filter(|it| !it.is_empty())
            .collect();
        let listed = namespaces.iter().copied().collect::<Vec<_>>().join(", ");
        let verb = match namespaces.len() {
            0 => verb.to_owned(),
            1 => format!("{verb} in namespace {listed}"),
            _ => format!("{verb} in namespaces: {listed}"),
        };
        said.entry(verb).or_default().push(names);
    }
    said.into_iter()
        .map(|(verb, mut names)| {
            names.sort();
            match names.join(", ") {
                names if names.is_empty() => format!("{resource} {verb}"),
                names => format!("{resource} [{names}] {verb}"),
            }
        })
        .collect()
}

/// `[NAME] in namespace NAMESPACE`.
pub fn identity(name: &str, namespace: &str) -> String {
    match (name, namespace) {
        ("", "") => String::new(),
        ("", namespace) => format!("in namespace {namespace}"),
        (name, "") => format!("[{name}]"),
        (name, namespace) => format!("[{name}] in namespace {namespace}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(all: &[(&str, &[&str], &[Finding])]) -> FindingsByObject {
        all.iter()
            .map(|(object, names, findings)| {
                let names = names.iter().map(|it| (*it).to_owned()).collect();
                let findings = findings.to_vec();
                ((*object).to_owned(), ObjectFindings { names, findings })
            })
            .collect()
    }

    fn last(findings: &FindingsByObject) -> TemplateVerdict {
        verdict("pods", batches(findings).last().unwrap())
    }

    #[test]
    fn objects_of_one_reason_share_a_sentence() {
        let found = Finding::of(true, reason::FOUND_AS_EXPECTED);
        let all = findings(&[
            ("n1/a", &["a"], std::slice::from_ref(&found)),
            ("n2/a", &["a"], std::slice::from_ref(&found)),
            ("n1/b", &["b"], std::slice::from_ref(&found)),
            ("n2/b", &["b"], std::slice::from_ref(&found)),
        ]);
        assert_eq!(
            last(&all).message,
            "pods [a, b] found as specified in namespaces: n1, n2"
        );
        assert_eq!(last(&all).reason, "K8s `must have` object already exists");
    }

    #[test]
    fn only_what_is_wrong_is_said() {
        let all = findings(&[
            ("n1/a", &["a"], &[Finding::of(true, reason::FOUND_AS_EXPECTED)]),
            ("n2/a", &["a"], &[Finding::of(false, reason::NOT_FOUND)]),
            ("n3/a", &["a"], &[Finding::of(false, reason::NO_MATCH)]),
            ("n4/a", &["a"], &[Finding::new(false, "api error", "no answer")]),
        ]);
        let verdict = last(&all);
        assert!(!verdict.compliant);
        assert_eq!(
            verdict.message,
            "pods [a] not found in namespace n2; pods [a] found but not as specified in namespace n3; no answer"
        );
        let have = "K8s does not have a `must have` object";
        assert_eq!(verdict.reason, format!("{have}; {have}; api error"));
    }

    #[test]
    fn what_was_wrong_is_said_before_what_was_done() {
        let created = [
            Finding::of(false, reason::NOT_FOUND),
            Finding::of(true, reason::CREATED),
        ];
        let all = findings(&[
            ("n1/a", &["a"], &created),
            ("n2/a", &["a"], &[Finding::of(true, reason::FOUND_AS_EXPECTED)]),
        ]);
        let batches = batches(&all);
        let texts: Vec<_> = batches.iter().map(|it| verdict("pods", it).message).collect();
        assert_eq!(
            texts,
            [
                "pods [a] not found in namespace n1",
                "pods [a] found as specified in namespace n2; pods [a] was created successfully in namespace n1",
            ]
        );
    }

    #[test]
    fn objects_without_names_and_namespaces_have_sentences() {
        let all = findings(&[("/", &[], &[Finding::of(false, reason::NOT_FOUND)])]);
        assert_eq!(last(&all).message, "pods not found");
    }
}
