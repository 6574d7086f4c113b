//! Which objects an object template wants: in which namespaces, with which names, and what its templates make of them.
//! Upstream: config-policy-controller `determineDesiredObjects`.

use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::ocm_api::{
    policy::configuration_policy::{ObjectTemplate, RelatedObject},
    selector::Selector,
};
use policy_template::{Delimiters, Input, ResolutionCause, TemplateContext, Unresolved, has_template};
use serde_json::{Value, json};

use super::{
    Evaluation, Remedy,
    keys::matches_unnamed,
    messages::{Finding, reason},
    namespaces, related,
    templates::{resolve, without_managed_fields},
};
use crate::cluster::{ClusterError, ServedKind};

/// What an object template wants.
#[derive(Default)]
pub struct DesiredObjects {
    /// The kind, where it is known.
    pub kind: Option<Arc<ServedKind>>,
    /// The objects, rendered. None where `finding` says why.
    pub objects: Vec<Value>,
    /// What is said instead of looking at objects.
    pub finding: Option<Finding>,
    /// Objects that were looked at on the way.
    pub related: Vec<RelatedObject>,
    /// Whether templates have read secrets.
    pub sensitive: bool,
}

impl DesiredObjects {
    fn only(kind: Option<&Arc<ServedKind>>, finding: Finding) -> Self {
        Self {
            kind: kind.cloned(),
            finding: Some(finding),
            ..Self::default()
        }
    }
}

/// Objects by namespace and name. A name that is empty is any; an object is there where templates ask for it.
type Selected = BTreeMap<String, BTreeMap<String, Option<Arc<Value>>>>;

/// What is known of a definition before it is rendered.
struct Definition<'a> {
    index: usize,
    template: &'a ObjectTemplate,
    /// As JSON.
    text: String,
    kind: &'a str,
    /// Its name, where it is no template.
    name: &'a str,
    /// Its namespace, where it is no template.
    namespace: &'a str,
    namespace_is_template: bool,
    namespace_is_given: bool,
    has_template: bool,
    uses_object: bool,
    selector: Option<Selector>,
}

impl<'a> Definition<'a> {
    fn is_for_all_names(&self) -> bool {
        self.name.is_empty() && self.selector.is_some()
    }

    /// Once more with nothing but a name in brackets, as messages have it.
    fn object(&self) -> String {
        match self.name {
            "" => "namespaced object".to_owned(),
            name => format!("namespaced object {name}"),
        }
    }

    fn default_names(&self) -> BTreeMap<String, Option<Arc<Value>>> {
        match self.is_for_all_names() {
            true => BTreeMap::new(),
            false => [(self.name.to_owned(), None)].into(),
        }
    }

    fn unmatched(&self, skipped: bool) -> Finding {
        let kind = self.kind;
        Finding::new(
            true,
            "",
            match (skipped, self.template.object_selector.is_some()) {
                (true, _) => format!("All objects of kind {kind} were skipped by the `skipObject` template function"),
                (false, true) => format!("No objects of kind {kind} were matched from the policy objectSelector"),
                (false, false) => format!("No objects of kind {kind} were matched from the objectDefinition metadata"),
            },
        )
    }

    fn template_error(&self, kind: &Arc<ServedKind>, message: impl Into<String>) -> DesiredObjects {
        DesiredObjects::only(Some(kind), Finding::new(false, reason::TEMPLATE_ERROR, message))
    }
}

impl Evaluation<'_> {
    /// What an object template wants. Errors that are worth another try are kept in the evaluation.
    pub async fn desired(&mut self, index: usize, template: &ObjectTemplate) -> DesiredObjects {
        let document = &template.object_definition.0;
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let (api_version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
        if kind.is_empty() || api_version.is_empty() || api_version.ends_with('/') {
            let message = format!(
                "The kind and apiVersion fields are required on the object template at index {index} in policy {}",
                self.policy_name()
            );
            return DesiredObjects::only(None, Finding::new(false, DECODE_ERROR, message));
        }
        let text = document.to_string();
        let unless_template = |value: &Value| match value.as_str() {
            Some(it) if !has_template(it, Delimiters::Managed, true) => it.to_owned(),
            _ => String::new(),
        };
        let metadata = &document["metadata"];
        let (name, namespace) = (
            unless_template(&metadata["name"]),
            unless_template(&metadata["namespace"]),
        );
        let given_namespace = metadata["namespace"].as_str().unwrap_or_default();
        let mut definition = Definition {
            index,
            template,
            has_template: has_template(&text, Delimiters::Managed, true),
            uses_object: mentions(&text, ".Object"),
            text,
            kind: &kind,
            name: &name,
            namespace: &namespace,
            namespace_is_template: !given_namespace.is_empty() && namespace.is_empty(),
            namespace_is_given: !given_namespace.is_empty(),
            selector: None,
        };
        let served = match self.cluster.served(&api_version, &kind).await {
            Ok(Some(served)) => served,
            outcome => return self.unknown_kind(&definition, &api_version, outcome.err()).await,
        };
        let mut selected = match self.in_namespaces(&definition, &served).await {
            Ok(selected) => selected,
            Err(finding) => return DesiredObjects::only(Some(&served), finding),
        };
        if let Some(selector) = &template.object_selector
            && name.is_empty()
        {
            match Selector::of(selector) {
                Ok(selector) => definition.selector = Some(selector),
                Err(why) => {
                    let message = format!(
                        "Error parsing provided objectSelector in the object-template at index [{index}]: {why}"
                    );
                    self.fail(Remedy::Again, why);
                    return DesiredObjects::only(Some(&served), Finding::new(false, SELECTOR_ERROR, message));
                }
            }
        }
        if let Err(finding) = self.with_names(&definition, &served, &mut selected).await {
            return DesiredObjects::only(Some(&served), finding);
        }
        let mut desired = self.rendered(&definition, &served, &selected).await;
        let removes = template.compliance_type.eq_ignore_ascii_case("mustnothave");
        if desired.finding.is_none() && removes && !metadata["name"].is_string() && definition.selector.is_some() {
            self.keep_only_matching(&definition, &served, &selected, &mut desired)
                .await;
        }
        desired
    }

    async fn unknown_kind(
        &mut self,
        definition: &Definition<'_>,
        api_version: &str,
        error: Option<ClusterError>,
    ) -> DesiredObjects {
        // A template may leave out what a cluster does not have.
        if self.renders && definition.has_template {
            let nothing = Arc::new(json!({}));
            let context = TemplateContext::object(&nothing, "", "");
            let input = Input::Json(&definition.template.object_definition.0);
            let settings = self.object_settings();
            let resolved = resolve(self.cluster, &mut self.answers, &settings, input, &context).await;
            if resolved.map_or_else(|it| it.skip_object, |it| it.skip_object) {
                return DesiredObjects::only(None, definition.unmatched(true));
            }
        }
        let (remedy, message) = match error {
            Some(error) => (Remedy::Again, error.message),
            None => {
                self.recorder.user_error(self.policy, "no-object-CRD");
                let message = format!(
                    "couldn't find mapping resource with kind {} in API version {api_version}, please check if you have \
                     CRD deployed",
                    definition.kind
                );
                (Remedy::Kind, message)
            }
        };
        self.fail(remedy, message.clone());
        DesiredObjects::only(None, Finding::new(false, "K8s error", message))
    }

    /// The namespaces that are looked in, each with the name of the definition.
    async fn in_namespaces(
        &mut self,
        definition: &Definition<'_>,
        kind: &Arc<ServedKind>,
    ) -> Result<Selected, Finding> {
        let namespaced = kind.namespaced;
        if !namespaced || !definition.namespace.is_empty() {
            let namespace = if namespaced { definition.namespace } else { "" };
            let mut names = definition.default_names();
            if definition.uses_object && !definition.name.is_empty() {
                let object = match self.cluster.get(kind, namespace, definition.name).await {
                    Err(error) if error.is_unwatchable() => return Err(self.unwatchable(definition.index, error)),
                    // What else is wrong shows again when the object is compared.
                    outcome => outcome.unwrap_or_default(),
                };
                names = [(definition.name.to_owned(), object)].into();
            }
            return Ok([(namespace.to_owned(), names)].into());
        }
        let namespaces = match self.selected_namespaces().await {
            Ok(namespaces) => namespaces,
            Err(why) => {
                let message = format!("Error filtering namespaces with provided namespaceSelector: {why}");
                self.fail(Remedy::Again, why);
                return Err(Finding::new(false, "namespaceSelector error", message));
            }
        };
        let mut selected = Selected::new();
        for namespace in namespaces {
            let mut names = definition.default_names();
            if definition.uses_object && !definition.name.is_empty() && !definition.namespace_is_given {
                let object = self.cluster.get(kind, &namespace, definition.name).await;
                names = [(definition.name.to_owned(), object.unwrap_or_default())].into();
            }
            selected.insert(namespace, names);
        }
        // A template says which namespace, in the end.
        if selected.is_empty() && definition.namespace_is_template {
            selected.insert(String::new(), definition.default_names());
        }
        if selected.is_empty() {
            let message = format!(
                "{} of kind {} has no namespace specified from the policy namespaceSelector nor the object metadata",
                definition.object(),
                definition.kind
            );
            return Err(Finding::new(false, "K8s missing namespace", message));
        }
        Ok(selected)
    }

    async fn selected_namespaces(&mut self) -> Result<Vec<String>, String> {
        let target = &self.policy_spec.namespace_selector;
        if target.is_empty() {
            return Ok(Vec::new());
        }
        let kind = self.cluster.served("v1", "Namespace").await.map_err(|it| it.message)?;
        let kind = kind.ok_or("the cluster has no namespaces")?;
        let all = self.cluster.list(&kind, "", None).await.map_err(|it| it.message)?;
        namespaces::selected(target, &all, self.settings.terminating_namespaces)
    }

    /// Puts in the names of the objects that the objectSelector selects.
    async fn with_names(
        &mut self,
        definition: &Definition<'_>,
        kind: &Arc<ServedKind>,
        selected: &mut Selected,
    ) -> Result<(), Finding> {
        let Some(selector) = &definition.selector else {
            return Ok(());
        };
        for (namespace, names) in selected.iter_mut() {
            names.clear();
            match self.cluster.list(kind, namespace, Some(selector)).await {
                Ok(found) => {
                    for object in found {
                        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                        names.insert(name, definition.uses_object.then_some(object));
                    }
                }
                Err(error) => {
                    let hint = match error.is_unwatchable() {
                        true => ", it may require evaluationInterval to be set",
                        false => "",
                    };
                    let message = format!(
                        "Error listing resources with provided objectSelector in the object-template at index [{}]{hint}: \
                         {error}",
                        definition.index
                    );
                    self.fail(Remedy::Again, error.message);
                    return Err(Finding::new(false, SELECTOR_ERROR, message));
                }
            }
        }
        Ok(())
    }

    /// Renders the definition for each namespace and name, as far as it says something about them.
    async fn rendered(
        &mut self,
        definition: &Definition<'_>,
        kind: &Arc<ServedKind>,
        selected: &Selected,
    ) -> DesiredObjects {
        let document = &definition.template.object_definition.0;
        let of_name = definition.has_template && mentions(&definition.text, ".ObjectName") || definition.uses_object;
        let of_namespace = definition.has_template && definition.text.contains(".ObjectNamespace");
        let mut desired = DesiredObjects {
            kind: Some(Arc::clone(kind)),
            ..DesiredObjects::default()
        };
        let mut skipped = false;
        // What was rendered, for who comes next and is no different.
        let mut made: Option<Value> = None;
        let nothing = Arc::new(Value::Null);
        for (namespace, names) in selected {
            if of_namespace {
                made = None;
            }
            for (name, object) in names {
                if of_name {
                    made = None;
                }
                let mut wanted = match &made {
                    Some(made) => made.clone(),
                    None if self.renders && definition.has_template => {
                        let object = object
                            .as_ref()
                            .map_or_else(|| Arc::clone(&nothing), without_managed_fields);
                        let context = TemplateContext::object(&object, namespace, name);
                        let settings = self.object_settings();
                        let input = Input::Json(document);
                        match resolve(self.cluster, &mut self.answers, &settings, input, &context).await {
                            Ok(resolved) if resolved.skip_object => {
                                skipped = true;
                                continue;
                            }
                            Err(unresolved) if unresolved.skip_object => {
                                skipped = true;
                                continue;
                            }
                            Ok(resolved) => {
                                desired.sensitive |= resolved.sensitive;
                                resolved.value
                            }
                            Err(unresolved) => {
                                let message = self.template_failure(&unresolved);
                                return definition.template_error(kind, message);
                            }
                        }
                    }
                    None => document.clone(),
                };
                if let Some(why) = undecodable(&wanted) {
                    let message = format!(
                        "Decoding error, please check your policy file! Aborting handling the object template at index [{}] \
                         in policy `{}` with error = `{why}`",
                        definition.index,
                        self.policy_name()
                    );
                    self.fail(Remedy::Again, why);
                    return DesiredObjects::only(Some(kind), Finding::new(false, DECODE_ERROR, message));
                }
                // What was rendered for another one is this one's, too, but for what names it.
                let is_copy = made.is_some();
                complete(&mut wanted, "name", name, is_copy);
                complete(&mut wanted, "namespace", namespace, is_copy);
                if let Some(kind) = wanted["kind"].as_str().map(|it| it.trim().to_owned()) {
                    wanted["kind"] = kind.into();
                }
                let of = |field: &str| wanted["metadata"][field].as_str().unwrap_or_default();
                if !self.policy_spec.namespace_selector.is_empty() && of("namespace") != namespace {
                    return definition.template_error(
                        kind,
                        "The object definition's namespace must match the result from the namespace selector after template \
                         resolution",
                    );
                }
                if kind.namespaced && definition.namespace_is_template && of("namespace").is_empty() {
                    let message = format!(
                        "{} of kind {} has no namespace specified after template resolution",
                        definition.object(),
                        definition.kind
                    );
                    return definition.template_error(kind, message);
                }
                if definition.template.object_selector.is_some() && of("name") != name {
                    return definition.template_error(
                        kind,
                        "The object definition's name must match the result from the object selector after template \
                         resolution",
                    );
                }
                made = Some(wanted.clone());
                desired.objects.push(wanted);
            }
        }
        if desired.objects.is_empty() {
            desired.finding = Some(definition.unmatched(skipped));
        }
        desired
    }

    /// Of objects that are not wanted and were selected by labels, only those are meant that have all of the
    /// definition.
    async fn keep_only_matching(
        &mut self,
        definition: &Definition<'_>,
        kind: &Arc<ServedKind>,
        selected: &Selected,
        desired: &mut DesiredObjects,
    ) {
        let mut matching = Vec::new();
        for object in std::mem::take(&mut desired.objects) {
            let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let existing = self
                .cluster
                .list(kind, of("namespace"), definition.selector.as_ref())
                .await;
            let is_it = |it: &Arc<Value>| it["metadata"]["name"] == of("name") && matches_unnamed(&object, it, false);
            if existing.unwrap_or_default().iter().any(is_it) {
                matching.push(object);
            }
        }
        if !matching.is_empty() {
            desired.objects = matching;
            return;
        }
        for (namespace, names) in selected {
            let entries = names
                .keys()
                .map(|name| related::related(kind, namespace, name, true, "", None));
            desired.related.extend(entries);
        }
        let namespaces: Vec<&str> = selected.keys().map(String::as_str).collect();
        let place = match namespaces.as_slice() {
            [_, _, ..] => "namespaces:",
            _ => "namespace",
        };
        let listed = namespaces.join(", ");
        let message = format!("{} missing as expected in {place} {listed}", kind.plural);
        desired.finding = Some(Finding::new(true, "", message));
    }

    /// What is said of a template that could not be rendered; whether it is tried again is kept.
    pub fn template_failure(&mut self, unresolved: &Unresolved) -> String {
        let error = &unresolved.error;
        let (remedy, message) = match error.cause {
            ResolutionCause::InvalidKey => (Remedy::Again, INVALID_KEY.to_owned()),
            ResolutionCause::InvalidIv => (Remedy::Spec, INVALID_IV.to_owned()),
            ResolutionCause::Unwatchable => (
                Remedy::Again,
                format!("{error} - this template may require evaluationInterval to be set"),
            ),
            ResolutionCause::MissingKind => (Remedy::Kind, error.message.clone()),
            // What was looked up wakes the policy; a template that is wrong stays so.
            ResolutionCause::Other if self.watching => (Remedy::Spec, error.message.clone()),
            ResolutionCause::Other | ResolutionCause::Passing => (Remedy::Again, error.message.clone()),
        };
        self.fail(remedy, error.message.clone());
        message
    }

    /// What is said of an object that cannot be watched.
    pub fn unwatchable(&mut self, index: usize, error: ClusterError) -> Finding {
        let message = format!(
            "Error with object-template at index [{index}], it may require evaluationInterval to be set: {error}"
        );
        self.fail(Remedy::Again, error.message);
        Finding::new(false, "unwatchable resource", message)
    }
}

const DECODE_ERROR: &str = "K8s decode object definition error";
const SELECTOR_ERROR: &str = "objectSelector error";
const INVALID_KEY: &str = "The \"policy-encryption-key\" Secret contains an invalid AES key";
const INVALID_IV: &str = "The \"policy.open-cluster-management.io/encryption-iv\" annotation value is not a valid \
    initialization vector";

/// Whether a text names a field, and not one that only begins so.
fn mentions(text: &str, field: &str) -> bool {
    text.match_indices(field).any(|(at, _)| {
        let next = text[at + field.len()..].chars().next();
        next.is_some_and(|it| !it.is_ascii_alphanumeric() && it != '_')
    })
}

/// Puts in a name where there is none, or where it is that of another object, without white space around it.
fn complete(object: &mut Value, field: &str, value: &str, of_another: bool) {
    let given = object["metadata"][field].as_str().unwrap_or_default();
    let text = if (given.is_empty() || of_another) && !value.is_empty() {
        value.trim().to_owned()
    } else {
        given.trim().to_owned()
    };
    let Some(metadata) = metadata_of(object) else { return };
    match text.is_empty() {
        true => drop(metadata.remove(field)),
        false => drop(metadata.insert(field.to_owned(), text.into())),
    }
}

fn metadata_of(object: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    let object = object.as_object_mut()?;
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut()
}

/// Why a rendered definition is no object, in the words of apimachinery.
fn undecodable(object: &Value) -> Option<String> {
    match object {
        Value::Object(_) => match object["kind"].as_str() {
            Some(kind) if !kind.is_empty() => None,
            _ => Some(format!("Object 'Kind' is missing in '{object}'")),
        },
        Value::Null => Some("Object 'Kind' is missing in 'null'".to_owned()),
        other => {
            let go = policy_template::type_name(other);
            Some(format!(
                "json: cannot unmarshal {go} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,\
                 omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            ))
        }
    }
}
