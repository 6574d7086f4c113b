//! Judges the certificates of the selected namespaces, and says it in upstream's words.
//! Upstream: cert-policy-controller `ProcessPolicies`, `controllers/certificatepolicy_utils.go`.
//!
//! Ours differs:
//!
//! 1. Certificates and namespaces are named in order; upstream's order is another each time, and its history fills with
//!    one message in several orders.
//! 2. A duration that cannot be read makes the policy NonCompliant; upstream stops reading policies at all.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp, civil};
use ocm_addon_sdk::{
    duration, go_regex,
    ocm_api::policy::certificate_policy::{
        CertificateCompliance, CertificatePolicySpec, CertificatePolicyStatus, ReportedCertificate,
    },
};
use regex::Regex;
use tracing::warn;

use crate::certificate::{CertificateFacts, CertificateSecret};

/// All certificates are as they should be.
pub const COMPLIANT: &str = "Compliant";
/// At least one is not.
pub const NON_COMPLIANT: &str = "NonCompliant";

const NO_NAMESPACES: &str = "No namespaces matched the namespace selector.";

/// The Secrets of the selected namespaces, by namespace.
pub type SelectedSecrets = BTreeMap<String, Vec<Arc<CertificateSecret>>>;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateReport {
    /// [`COMPLIANT`] or [`NON_COMPLIANT`].
    pub state: &'static str,
    /// By namespace; one of an empty name, if none is selected.
    pub details: BTreeMap<String, CertificateCompliance>,
    /// State and reason, as events and the history have it.
    pub message: String,
    /// When the next certificate does not comply any more, if nothing changes.
    pub next: Option<Duration>,
}

/// How a report differs from what the status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportNews {
    /// In nothing but the time that is left.
    None,
    /// In what is said of certificates that are reported as before.
    Details,
    /// In something that is to be told.
    Message,
}

/// What certificates must be like. Durations are nanoseconds, as Go counts them: 292 years at most.
struct CertificateRules {
    minimum: i64,
    minimum_of_authorities: Option<i64>,
    maximum: Option<i64>,
    maximum_of_authorities: Option<i64>,
    allowed: Option<Regex>,
    disallowed: Option<Regex>,
    /// The two patterns as messages name them.
    patterns: String,
}

impl CertificateRules {
    fn of(spec: &CertificatePolicySpec, minimum: SignedDuration) -> Result<Self, String> {
        let read = |field: &str, text: &str| match text {
            "" => Ok(None),
            text => match duration::parse(text) {
                Some(read) => Ok(Some(nanoseconds(read.as_nanos()))),
                None => Err(format!("spec.{field} cannot be read as a duration of Go: {text:?}")),
            },
        };
        let patterns = [
            ("Allowed", &spec.allowed_san_pattern),
            ("Disallowed", &spec.disallowed_san_pattern),
        ];
        let mut named = String::new();
        for (called, pattern) in patterns.into_iter().filter(|(_, it)| !it.is_empty()) {
            if called == "Disallowed" {
                named.push(' ');
            }
            named.push_str(&format!("{called}: {pattern}"));
        }
        Ok(Self {
            minimum: read("minimumDuration", &spec.minimum_duration)?
                .unwrap_or_else(|| nanoseconds(minimum.as_nanos())),
            minimum_of_authorities: read("minimumCADuration", &spec.minimum_ca_duration)?,
            maximum: read("maximumDuration", &spec.maximum_duration)?,
            maximum_of_authorities: read("maximumCADuration", &spec.maximum_ca_duration)?,
            allowed: compiled("allowedSANPattern", &spec.allowed_san_pattern),
            disallowed: compiled("disallowedSANPattern", &spec.disallowed_san_pattern),
            patterns: named,
        })
    }

    /// How long a certificate must be valid still.
    fn minimum(&self, ca: bool) -> i64 {
        self.minimum_of_authorities.filter(|_| ca).unwrap_or(self.minimum)
    }

    fn expires(&self, it: &ReportedCertificate) -> bool {
        it.expiry < self.minimum(it.ca)
    }

    fn lasts_too_long(&self, it: &ReportedCertificate) -> bool {
        let maximum = self.maximum_of_authorities.filter(|_| it.ca).or(self.maximum);
        maximum.is_some_and(|maximum| it.duration > maximum)
    }

    fn has_wrong_names(&self, it: &ReportedCertificate) -> bool {
        let allowed = |name: &String| self.allowed.as_ref().is_none_or(|it| it.is_match(name));
        let disallowed = |name: &String| self.disallowed.as_ref().is_some_and(|it| it.is_match(name));
        it.sans.iter().any(|name| !allowed(name) || disallowed(name))
    }

    fn complies(&self, it: &ReportedCertificate) -> bool {
        !self.expires(it) && !self.lasts_too_long(it) && !self.has_wrong_names(it)
    }
}

/// A pattern that is none allows everything, as upstream has it.
fn compiled(field: &str, pattern: &str) -> Option<Regex> {
    if pattern.is_empty() {
        return None;
    }
    match go_regex::compile(pattern) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            warn!(field, pattern, %error, "the pattern is no regular expression, and is not looked at");
            None
        }
    }
}

/// Judges the certificates. `default_minimum`: how long they must be valid still, if the policy does not say it.
pub fn evaluate(
    spec: &CertificatePolicySpec,
    default_minimum: SignedDuration,
    secrets: &SelectedSecrets,
    now: Timestamp,
) -> CertificateReport {
    let rules = match CertificateRules::of(spec, default_minimum) {
        Ok(rules) => rules,
        Err(why) => {
            return CertificateReport {
                state: NON_COMPLIANT,
                details: BTreeMap::new(),
                message: format!("{NON_COMPLIANT}; {why}"),
                next: None,
            };
        }
    };
    let mut next: Option<i64> = None;
    let mut details = BTreeMap::new();
    for (namespace, secrets) in secrets {
        let mut found = BTreeMap::new();
        for secret in secrets.iter().filter(|it| it.has_labels(&spec.label_selector)) {
            let Some(facts) = &secret.certificate else { continue };
            let reported = reported(secret.name(), facts, now);
            if !rules.expires(&reported) {
                let left = reported.expiry.saturating_sub(rules.minimum(reported.ca));
                next = Some(next.map_or(left, |it| it.min(left)));
            }
            if !rules.complies(&reported) {
                found.insert(secret.certificate_name().to_owned(), reported);
            }
        }
        details.insert(namespace.clone(), compliance(namespace, found, &rules));
    }
    if details.is_empty() {
        details.insert(String::new(), compliance("", BTreeMap::new(), &rules));
    }
    let complies = details.values().all(|it| it.non_compliant_certificates == 0);
    let state = if complies { COMPLIANT } else { NON_COMPLIANT };
    let why = match complies {
        true if secrets.is_empty() => NO_NAMESPACES.to_owned(),
        true => "All evaluated certificates are compliant".to_owned(),
        false => reasons(&details, &rules),
    };
    CertificateReport {
        state,
        details,
        message: format!("{state}; {why}"),
        // Whatever is left has to be over.
        next: next.map(|it| Duration::from_nanos(it.unsigned_abs()) + Duration::from_millis(1)),
    }
}

fn reported(secret: &str, facts: &CertificateFacts, now: Timestamp) -> ReportedCertificate {
    let seconds = |it: i64| i128::from(it) * 1_000_000_000;
    ReportedCertificate {
        secret: secret.to_owned(),
        expiration: rfc3339(facts.until),
        expiry: nanoseconds(seconds(facts.until) - now.as_nanosecond()),
        ca: facts.ca,
        duration: nanoseconds(seconds(facts.until) - seconds(facts.from)),
        sans: facts.names.clone(),
    }
}

/// As Go counts time: what is too much is as much as it can count.
fn nanoseconds(count: i128) -> i64 {
    let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
    i64::try_from(count.clamp(least, most)).unwrap_or_default()
}

/// A certificate without an end has one behind what a `Timestamp` can hold.
fn rfc3339(second: i64) -> String {
    let begin = civil::date(1970, 1, 1).at(0, 0, 0, 0);
    match begin.checked_add(SignedDuration::from_secs(second)) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => String::new(),
    }
}

/// What is said of one namespace.
fn compliance(
    namespace: &str,
    found: BTreeMap<String, ReportedCertificate>,
    rules: &CertificateRules,
) -> CertificateCompliance {
    let count = found.len();
    let mut message = match namespace {
        "" => format!("Found {count} non compliant certificates, no namespaces were selected.\n"),
        namespace => format!("Found {count} non compliant certificates in the namespace {namespace}.\n"),
    };
    if count > 0 {
        message.push_str("List of non compliant certificates:\n");
    }
    for (name, it) in &found {
        if rules.expires(it) {
            message.push_str(&format!("{name} expires on {}\n", it.expiration));
        }
        if rules.lasts_too_long(it) {
            message.push_str(&format!("{name} duration too long {}\n", text(it.duration)));
        }
        if rules.has_wrong_names(it) {
            let patterns = &rules.patterns;
            message.push_str(&format!("{name} SAN entry found not matching pattern {patterns}\n"));
        }
    }
    CertificateCompliance {
        non_compliant_certificates: count as u64,
        non_compliant_certificates_list: found,
        message,
    }
}

fn text(nanoseconds: i64) -> String {
    duration::text(SignedDuration::from_nanos(nanoseconds))
}

/// Why the policy is not complied with: each rule, and who breaks it.
fn reasons(details: &BTreeMap<String, CertificateCompliance>, rules: &CertificateRules) -> String {
    let breaking = |breaks: &dyn Fn(&ReportedCertificate) -> bool| {
        let all = details.iter().flat_map(|(namespace, it)| {
            it.non_compliant_certificates_list
                .values()
                .map(move |it| (namespace, it))
        });
        let all = all.filter(|(_, it)| breaks(it));
        all.map(|(namespace, it)| format!("{namespace}:{}", it.secret))
            .collect::<Vec<_>>()
    };
    // Of an authority the rules for authorities, where there are any.
    let as_authority = |it: &ReportedCertificate, rule: Option<i64>| it.ca && rule.is_some();
    let (least, longest) = (rules.minimum_of_authorities, rules.maximum_of_authorities);
    let rules_broken = [
        (
            format!("certificates expire in less than {}", text(rules.minimum)),
            breaking(&|it| rules.expires(it) && !as_authority(it, least)),
        ),
        (
            format!(
                "CA certificates expire in less than {}",
                text(least.unwrap_or_default())
            ),
            breaking(&|it| rules.expires(it) && as_authority(it, least)),
        ),
        (
            format!(
                "certificates exceed the maximum duration of {}",
                text(rules.maximum.unwrap_or_default())
            ),
            breaking(&|it| rules.lasts_too_long(it) && !as_authority(it, longest)),
        ),
        (
            format!(
                "CA certificates exceed the maximum duration of {}",
                text(longest.unwrap_or_default())
            ),
            breaking(&|it| rules.lasts_too_long(it) && as_authority(it, longest)),
        ),
        (
            format!(
                "certificates defined SAN entries do not match pattern {}",
                rules.patterns
            ),
            breaking(&|it| rules.has_wrong_names(it)),
        ),
    ];
    let mut message = String::new();
    for (number, (rule, who)) in rules_broken.iter().enumerate().filter(|(_, (_, who))| !who.is_empty()) {
        // All but the first rule are said behind a space, even where nothing stands before it.
        let space = if number == 0 { "" } else { " " };
        message.push_str(&format!("{space}{} {rule}: {}\n", who.len(), who.join(", ")));
    }
    message
}

/// What of a report is new.
pub fn news(before: Option<&CertificatePolicyStatus>, report: &CertificateReport) -> ReportNews {
    let Some(before) = before else {
        return ReportNews::Message;
    };
    let said = |it: &BTreeMap<String, CertificateCompliance>| {
        let texts = it.iter().map(|(namespace, it)| (namespace.clone(), it.message.clone()));
        texts.collect::<Vec<_>>()
    };
    let newest = before.history.first().map(|it| it.message.as_str());
    if before.compliant != report.state
        || newest != Some(&report.message)
        || said(&before.compliancy_details) != said(&report.details)
    {
        return ReportNews::Message;
    }
    match timeless(&before.compliancy_details) == timeless(&report.details) {
        true => ReportNews::None,
        false => ReportNews::Details,
    }
}

/// Without what is another number at each look.
fn timeless(details: &BTreeMap<String, CertificateCompliance>) -> BTreeMap<String, CertificateCompliance> {
    let mut details = details.clone();
    for it in details
        .values_mut()
        .flat_map(|it| it.non_compliant_certificates_list.values_mut())
    {
        it.expiry = 0;
    }
    details
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
