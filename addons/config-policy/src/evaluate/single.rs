//! One wanted object: whether it is there and as it is wanted, and what is done about it.
//! Upstream: config-policy-controller `handleSingleObj`, `checkAndUpdateResource`.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use ocm_addon_sdk::ocm_api::policy::configuration_policy::{ObjectTemplate, RelatedProperties};
use serde_json::Value;

use super::{
    Evaluation, Remedy,
    diff::{DiffRecording, recorded, recording},
    keys::{KeyRules, compare_keys, without_noise},
    messages::{Finding, ObjectFindings, identity, reason},
};
use crate::cluster::{ClusterError, Judged, ServedKind};

/// Another writer may come in between this many times.
const CONFLICTS_MAX: usize = 10;
/// How often an object that has to be recreated is created, once a second, until the old one is gone.
const RECREATIONS_MAX: usize = 3;

/// An object that is wanted, or is not.
pub struct WantedObject<'a> {
    /// Its kind.
    pub kind: &'a ServedKind,
    /// Its name.
    pub name: &'a str,
    /// Its namespace; empty for kinds without.
    pub namespace: &'a str,
    /// What it should be, rendered.
    pub wanted: &'a Value,
    /// What it is.
    pub existing: Option<Arc<Value>>,
    /// The object template that it is of.
    pub template: &'a ObjectTemplate,
    /// Whether the template has read secrets.
    pub sensitive: bool,
    /// Whether something is to be done about it.
    pub enforce: bool,
}

/// What a comparison has found, and what was done.
#[derive(Default)]
struct Checked {
    violation: bool,
    message: String,
    diff: String,
    /// Whether it was wrong, and something was tried.
    tried: bool,
    updated: Option<Value>,
    matches_after_dry_run: bool,
}

impl Checked {
    fn wrong(message: impl Into<String>, diff: String, tried: bool) -> Self {
        Self {
            violation: true,
            message: message.into(),
            diff,
            tried,
            ..Self::default()
        }
    }
}

impl WantedObject<'_> {
    fn prefix(&self) -> String {
        let place = match self.kind.namespaced {
            true => format!(" in namespace {}", self.namespace),
            false => String::new(),
        };
        format!("{} [{}]{place}", self.kind.plural, self.name)
    }

    /// Which object it is, and what is wanted of it: templates may want something else the next time.
    fn remembered_as(&self, existing: &Value) -> String {
        let mut hasher = DefaultHasher::new();
        let template = self.template;
        (&template.compliance_type, &template.metadata_compliance_type).hash(&mut hasher);
        (self.enforce, self.wanted.to_string()).hash(&mut hasher);
        format!("{} {:x}", uid(existing), hasher.finish())
    }

    fn identity(&self) -> String {
        format!("{} {}", self.kind.plural, identity(self.name, self.namespace))
    }
}

impl Evaluation<'_> {
    /// Looks at one object, and puts it right where that is wanted.
    pub async fn judge(&mut self, object: WantedObject<'_>) -> (ObjectFindings, Option<RelatedProperties>) {
        let wanted = !object.template.compliance_type.eq_ignore_ascii_case("mustnothave");
        let (findings, properties) = match (object.existing.clone(), wanted) {
            (None, true) => self.create(&object).await,
            (None, false) => (vec![Finding::of(true, reason::MISSING_AS_EXPECTED)], None),
            (Some(_), false) => (vec![self.delete(&object).await], None),
            (Some(existing), true) => self.compare(&object, existing).await,
        };
        let names = vec![object.name.to_owned()];
        (ObjectFindings { names, findings }, properties)
    }

    async fn create(&mut self, object: &WantedObject<'_>) -> (Vec<Finding>, Option<RelatedProperties>) {
        let mut findings = vec![Finding::of(false, reason::NOT_FOUND)];
        if !object.enforce {
            return (findings, None);
        }
        match self.cluster.create(object.kind, object.wanted).await {
            Ok(created) => {
                findings.push(match object.template.object_definition.0.get("status") {
                    Some(_) => {
                        let done = format!("{} was created successfully", object.identity());
                        let later = "the status of the object will be verified in the next evaluation";
                        let reason = format!("{}, status unchecked", reason::CREATED);
                        Finding::new(false, &reason, format!("{done}, {later}"))
                    }
                    None => Finding::of(true, reason::CREATED),
                });
                let properties = RelatedProperties {
                    created_by_policy: Some(true),
                    uid: uid(&created).to_owned(),
                    ..RelatedProperties::default()
                };
                (findings, Some(properties))
            }
            Err(error) => {
                let message = format!(
                    "{} is missing, and cannot be created, reason: `{error}`",
                    object.identity()
                );
                findings.push(Finding::new(false, "K8s creation error", message));
                if !self.waits_for_namespace(object, &error).await {
                    self.fail(Remedy::Again, error.message);
                }
                (findings, None)
            }
        }
    }

    /// Whether a namespace is missing or going, and will wake the policy when that changes.
    async fn waits_for_namespace(&self, object: &WantedObject<'_>, error: &ClusterError) -> bool {
        let missing = error.reason == "NotFound" && error.about == "namespaces";
        let going = error.causes.iter().any(|it| it == "NamespaceTerminating");
        if !self.watching || !object.kind.namespaced || !(missing || going) {
            return false;
        }
        match self.cluster.served("v1", "Namespace").await {
            Ok(Some(kind)) => self.cluster.get(&kind, "", object.namespace).await.is_ok(),
            _ => false,
        }
    }

    async fn delete(&mut self, object: &WantedObject<'_>) -> Finding {
        if !object.enforce {
            return Finding::of(false, reason::UNWANTED);
        }
        match self.cluster.delete(object.kind, object.namespace, object.name).await {
            Ok(()) => Finding::of(true, reason::DELETED),
            Err(error) if error.code == 404 => Finding::of(true, reason::DELETED),
            Err(error) => {
                let message = format!("{} exists, and cannot be deleted, reason: `{error}`", object.identity());
                self.fail(Remedy::Again, error.message);
                Finding::new(false, "K8s deletion error", message)
            }
        }
    }

    async fn compare(
        &mut self,
        object: &WantedObject<'_>,
        existing: Arc<Value>,
    ) -> (Vec<Finding>, Option<RelatedProperties>) {
        let begun = std::time::Instant::now();
        let mut properties = RelatedProperties {
            created_by_policy: Some(false),
            uid: uid(&existing).to_owned(),
            ..RelatedProperties::default()
        };
        let checked = match self
            .cluster
            .judged(&object.remembered_as(&existing), resource_version(&existing))
        {
            Some(judged) => self.as_before(judged, &properties.uid),
            None => {
                let checked = self.check(object, existing).await;
                self.recorder.compared(self.policy_name(), object, begun.elapsed());
                checked
            }
        };
        if let Some(updated) = &checked.updated
            && uid(updated) != properties.uid
        {
            properties.uid = uid(updated).to_owned();
            properties.created_by_policy = Some(true);
        }
        let mut findings = Vec::new();
        if checked.tried && !checked.message.contains("Error validating the object") {
            findings.push(Finding::of(false, reason::NO_MATCH));
        }
        findings.push(match (checked.violation, checked.message.is_empty()) {
            (true, true) => Finding::of(false, reason::NO_MATCH),
            (true, false) => Finding::new(false, reason::UPDATE_ERROR, checked.message),
            (false, _) if object.enforce && checked.updated.is_some() => Finding::of(true, reason::UPDATED),
            (false, _) => Finding::of(true, reason::FOUND_AS_EXPECTED),
        });
        properties.diff = checked.diff;
        properties.matches_after_dry_run = checked.matches_after_dry_run;
        (findings, Some(properties))
    }

    /// What was found the last time, of an object that has not changed since.
    fn as_before(&self, judged: Judged, uid: &str) -> Checked {
        let related = &self.related_before;
        let of_object = related
            .iter()
            .filter_map(|it| it.properties.as_ref())
            .find(|it| it.uid == uid);
        Checked {
            violation: !judged.compliant,
            message: judged.message,
            diff: of_object.map(|it| it.diff.clone()).unwrap_or_default(),
            matches_after_dry_run: of_object.is_some_and(|it| it.matches_after_dry_run),
            ..Checked::default()
        }
    }

    async fn check(&self, object: &WantedObject<'_>, mut existing: Arc<Value>) -> Checked {
        for _ in 0..CONFLICTS_MAX {
            match self.check_once(object, &existing).await {
                Ok(checked) => return checked,
                // Somebody has written meanwhile: it is looked at anew.
                Err(conflict) => match self.cluster.get_now(object.kind, object.namespace, object.name).await {
                    Ok(Some(now)) => existing = now,
                    Ok(None) | Err(_) => {
                        return Checked::wrong(update_error(object, "update", &conflict), String::new(), true);
                    }
                },
            }
        }
        let message = format!("{} is written by somebody else all the time", object.prefix());
        Checked::wrong(message, String::new(), true)
    }

    /// The error is a conflict.
    async fn check_once(&self, object: &WantedObject<'_>, existing: &Arc<Value>) -> Result<Checked, ClusterError> {
        let template = object.template;
        let is_only = |text: &str| text.eq_ignore_ascii_case("mustonlyhave");
        let rules = KeyRules {
            only: is_only(&template.compliance_type),
            only_metadata: is_only(match template.metadata_compliance_type.as_str() {
                "" => &template.compliance_type,
                of_metadata => of_metadata,
            }),
        };
        let compared = match compare_keys(object.wanted, existing, rules) {
            Ok(compared) => compared,
            Err(why) => return Ok(Checked::wrong(why, String::new(), true)),
        };
        let before = without_noise(existing);
        let how = recording(template, &template.object_definition.0, object.sensitive);
        let diff_to = |after: &Value| recorded(how, &before, after, self.settings.full_diffs);
        let mut diff = String::new();
        if compared.status_differs && how != DiffRecording::Nowhere {
            diff = diff_to(&without_noise(&compared.merged));
        }
        let violation = compared.status_differs;
        if !compared.differs && !compared.missing {
            self.keep(object, existing, !violation, "");
            return Ok(Checked {
                violation,
                diff,
                ..Checked::default()
            });
        }
        let recreate_allowed = matches!(template.recreate_option.as_str(), "Always" | "IfRequired");
        let mut recreate = template.recreate_option == "Always";
        match self.cluster.update(object.kind, &compared.merged, true).await {
            Ok(tried) => {
                let after = without_noise(&tried);
                if same_but_version(&after, &before) {
                    self.keep(object, existing, !violation, "");
                    return Ok(Checked {
                        violation,
                        tried: violation && compared.differs,
                        diff,
                        matches_after_dry_run: !violation,
                        ..Checked::default()
                    });
                }
                diff = diff_to(&after);
            }
            Err(error) if error.reason == "Conflict" => return Err(error),
            Err(error) if error.reason == "Invalid" => {
                diff = diff_to(&without_noise(&compared.merged));
                if !object.enforce || !recreate_allowed {
                    let message = match object.enforce {
                        true => format!("{} {CANNOT_BE_UPDATED}", object.prefix()),
                        false => String::new(),
                    };
                    self.keep(object, existing, false, &message);
                    return Ok(Checked::wrong(message, diff, false));
                }
                recreate = true;
            }
            Err(error) => {
                let message = known_update_error(object, &error).unwrap_or_else(|| {
                    format!(
                        "Error issuing a dry run update request for the object `{}`, the error is `{error}`",
                        object.name
                    )
                });
                if error.code == 400 {
                    self.keep(object, existing, false, &message);
                }
                return Ok(Checked::wrong(message, String::new(), compared.differs));
            }
        }
        if !object.enforce {
            self.keep(object, existing, false, "");
            return Ok(Checked::wrong("", diff, false));
        }
        let updated = match recreate {
            true => self.recreate(object).await,
            false => self
                .cluster
                .update(object.kind, &compared.merged, false)
                .await
                .map_err(|error| (known_update_error(object, &error), error)),
        };
        match updated {
            Ok(updated) => {
                if !violation {
                    self.keep(object, &updated, true, "");
                }
                Ok(Checked {
                    violation,
                    diff,
                    tried: compared.differs,
                    updated: Some(updated),
                    ..Checked::default()
                })
            }
            Err((_, error)) if error.reason == "Conflict" => Err(error),
            Err((message, error)) => {
                let action = if recreate { "recreate" } else { "update" };
                let message = message.unwrap_or_else(|| update_error(object, action, &error));
                Ok(Checked::wrong(message, diff, compared.differs))
            }
        }
    }

    /// Deletes the object, and creates it anew once it is gone. An error has its message, where it has one of its own.
    async fn recreate(&self, object: &WantedObject<'_>) -> Result<Value, (Option<String>, ClusterError)> {
        match self.cluster.delete(object.kind, object.namespace, object.name).await {
            Ok(()) => {}
            Err(error) if error.code == 404 => {}
            Err(error) => {
                let message = format!(
                    "{} failed to delete when recreating with the error {error}",
                    object.prefix()
                );
                return Err((Some(message), error));
            }
        }
        let mut attempts = 1;
        loop {
            match self.cluster.create(object.kind, object.wanted).await {
                Ok(created) => return Ok(created),
                Err(error) if error.reason == "AlreadyExists" => {
                    if attempts == RECREATIONS_MAX {
                        let message = format!(
                            "{} {STILL_THERE}, will retry on the next policy evaluation",
                            object.prefix()
                        );
                        return Err((Some(message), ClusterError::default()));
                    }
                    attempts += 1;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => return Err((known_update_error(object, &error), error)),
            }
        }
    }

    fn keep(&self, object: &WantedObject<'_>, existing: &Value, compliant: bool, message: &str) {
        let judged = Judged {
            compliant,
            message: message.to_owned(),
        };
        let remembered_as = object.remembered_as(existing);
        self.cluster
            .keep_judged(&remembered_as, resource_version(existing), judged);
    }
}

/// What a recreation says that has not ended; such a policy is looked at again soon.
pub const STILL_THERE: &str = "timed out waiting for the object to delete during recreate";

const CANNOT_BE_UPDATED: &str = "cannot be updated, likely due to immutable fields not matching, you may set \
    spec[\"object-templates\"][].recreateOption to recreate the object";

fn known_update_error(object: &WantedObject<'_>, error: &ClusterError) -> Option<String> {
    if error.reason == "NotFound" {
        return Some(format!("`{}` is not present and must be created", object.kind.kind));
    }
    let strict = error.message.contains("strict decoding error:");
    strict.then(|| format!("Error validating the object {}, the error is `{error}`", object.name))
}

fn update_error(object: &WantedObject<'_>, action: &str, error: &ClusterError) -> String {
    format!("{} failed to {action} with the error `{error}`", object.prefix())
}

/// Whether two objects are the same, whatever their versions.
fn same_but_version(one: &Value, other: &Value) -> bool {
    let without = |it: &Value| {
        let mut it = it.clone();
        if let Some(metadata) = it.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        it
    };
    one == other || without(one) == without(other)
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn resource_version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}
