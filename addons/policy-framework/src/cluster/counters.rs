//! How often something has hindered templates, for Prometheus. Upstream: `controllers/templatesync/template_metric.go`.

use std::{collections::BTreeMap, fmt::Write};

use ocm_addon_sdk::reconcile::metrics::label;
use parking_lot::Mutex;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Of who has written the Policy.
    User,
    /// Of nobody who could mend it.
    System,
}

/// Policy, template, and what it was.
type Labels = (String, String, &'static str);

static COUNTS: Mutex<BTreeMap<(Fault, Labels), u64>> = Mutex::new(BTreeMap::new());

/// Counts one.
pub fn add(fault: Fault, policy: &str, template: &str, what: &'static str) {
    let labels = (policy.to_owned(), template.to_owned(), what);
    *COUNTS.lock().entry((fault, labels)).or_default() += 1;
}

/// Forgets a Policy that is gone.
pub fn forget(policy: &str) {
    COUNTS.lock().retain(|(_, (of, ..)), _| of != policy);
}

/// All of it in Prometheus' text format.
pub fn text() -> String {
    let counts = COUNTS.lock();
    let mut text = String::new();
    for (fault, name, help) in [
        (
            Fault::User,
            "policy_user_errors_total",
            "The number of user errors encountered while processing policies",
        ),
        (
            Fault::System,
            "policy_system_errors_total",
            "The number of system errors encountered while processing policies",
        ),
    ] {
        let mut of_fault = counts.iter().filter(|((it, _), _)| *it == fault).peekable();
        if of_fault.peek().is_some() {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
        }
        for ((_, (policy, template, what)), count) in of_fault {
            let template = label(template);
            let _ = writeln!(
                text,
                "{name}{{policy=\"{policy}\",template=\"{template}\",type=\"{what}\"}} {count}"
            );
        }
    }
    text
}
