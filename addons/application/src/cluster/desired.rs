//! What a Subscription wants of each object of its source. Pure.
//! Upstream: multicloud-operators-subscription pkg/subscriber/git, pkg/synchronizer/kubernetes `OverrideResource`.

use ocm_addon_sdk::{
    kube::{ResourceExt, core::ApiResource},
    ocm_api::{
        apps::{KindsOfVersion, Subscription, annotations, labels},
        policy,
        selector::Selector,
    },
    reconcile::{cache::key_of, discovery::DiscoveredKind},
};
use serde_json::{Map, Value, json};

/// How an object that is there already is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReconcileOption {
    /// What others have set stays.
    #[default]
    Merge,
    /// It is as the source has it.
    Replace,
    /// What others have set stays, and the object is the Subscription's from now on.
    MergeAndOwn,
}

impl ReconcileOption {
    /// As annotations have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Replace => "replace",
            Self::MergeAndOwn => "mergeAndOwn",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [Self::Merge, Self::Replace, Self::MergeAndOwn];
        all.into_iter().find(|it| it.as_str().eq_ignore_ascii_case(text))
    }
}

/// For whom objects are deployed.
#[derive(Clone, Debug)]
pub struct DeploymentRules<'a> {
    /// The Subscription.
    pub subscription: &'a Subscription,
    /// The cluster.
    pub cluster: &'a str,
    /// Whether objects of this source may be deployed as by a subscription administrator.
    pub may_be_admin: bool,
}

/// An object that is to be there.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectToDeploy {
    /// Its kind on the API server.
    pub api_resource: ApiResource,
    /// Its namespace; empty for cluster-scoped ones.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object.
    pub object: Value,
    /// How it is changed where it is there already; `None` when nobody has said, which is to merge.
    pub option: Option<ReconcileOption>,
    /// Whether a subscription administrator deploys it.
    pub is_admin: bool,
}

/// Why an object is not deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedObject {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, where that is known.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub message: String,
}

impl DeploymentRules<'_> {
    /// Whether a subscription administrator has made the Subscription.
    pub fn is_admin(&self) -> bool {
        let said = self.subscription.annotation(annotations::CLUSTER_ADMIN);
        self.may_be_admin && said.is_some_and(|it| it.eq_ignore_ascii_case("true"))
    }

    /// What is wanted of one object of the source; `None` when it is filtered out.
    ///
    /// # Errors
    /// When it is not to be deployed.
    pub fn wanted(
        &self,
        template: &Value,
        kind: Option<&DiscoveredKind>,
    ) -> Option<Result<ObjectToDeploy, RefusedObject>> {
        let mut object = template.clone();
        let name = match object.pointer("/metadata/name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => self.subscription.name_any(),
        };
        metadata(&mut object).insert("name".to_owned(), name.clone().into());
        if !self.is_selected(&object, &name) {
            return None;
        }
        let (namespace, is_admin) = (self.subscription.namespace().unwrap_or_default(), self.is_admin());
        let refused = |object: &Value, message: String| {
            let text = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            RefusedObject {
                api_version: text("/apiVersion"),
                kind: text("/kind"),
                namespace: text("/metadata/namespace"),
                name: name.clone(),
                message,
            }
        };
        let Some(kind) = kind else {
            let (version, kind) = (&object["apiVersion"], &object["kind"]);
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let message = format!("no matches for kind {:?} in version {:?}", text(kind), text(version));
            return Some(Err(refused(&object, message)));
        };
        self.change(&mut object, &name);
        match kind.namespaced {
            true => {
                let own = object.pointer("/metadata/namespace").and_then(Value::as_str);
                let own =
                    own.filter(|it| !it.is_empty() && is_admin && !self.says(annotations::CURRENT_NAMESPACE_SCOPED));
                let place = own.unwrap_or(&namespace).to_owned();
                metadata(&mut object).insert("namespace".to_owned(), place.into());
            }
            false => drop(metadata(&mut object).remove("namespace")),
        }
        if let Some(why) = self.refusal(&kind.api_resource, is_admin) {
            return Some(Err(refused(&object, why)));
        }
        let option = self.option();
        self.mark(&mut object, option, is_admin);
        let place = object
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Some(Ok(ObjectToDeploy {
            api_resource: kind.api_resource.clone(),
            namespace: place.to_owned(),
            name,
            option,
            is_admin,
            object,
        }))
    }

    fn says(&self, annotation: &str) -> bool {
        let said = self.subscription.annotation(annotation);
        said.is_some_and(|it| it.eq_ignore_ascii_case("true"))
    }

    fn option(&self) -> Option<ReconcileOption> {
        let said = self.subscription.annotation(annotations::RECONCILE_OPTION)?;
        ReconcileOption::parse(said)
    }

    /// Filters count where there is a filter at all. A chart is chosen by its own rules.
    fn is_selected(&self, object: &Value, name: &str) -> bool {
        let spec = &self.subscription.spec;
        let Some(filter) = spec.package_filter.as_ref().filter(|_| object["kind"] != "HelmRelease") else {
            return true;
        };
        if !spec.name.is_empty() && spec.name != name {
            return false;
        }
        let has = |key: &str, value: &str| object["metadata"]["annotations"][key] == value;
        if !filter.annotations.iter().all(|(key, value)| has(key, value)) {
            return false;
        }
        let Some(selector) = &filter.label_selector else {
            return true;
        };
        let labels = &object["metadata"]["labels"];
        Selector::of(selector).is_ok_and(|it| it.matches(|key| labels[key].as_str()))
    }

    /// Overrides of this object, and those of this cluster.
    fn change(&self, object: &mut Value, name: &str) {
        let spec = &self.subscription.spec;
        let of_package = spec
            .package_overrides
            .iter()
            .filter(|it| it.package_name == name && object["kind"] != "HelmRelease");
        let of_package: Vec<_> = of_package.flat_map(|it| &it.package_overrides).collect();
        let here = |it: &&ocm_addon_sdk::ocm_api::apps::ClusterOverrides| {
            it.cluster_name == self.cluster || it.cluster_name == "/"
        };
        let of_cluster = spec.overrides.iter().find(here);
        let of_cluster = of_cluster.iter().flat_map(|it| &it.cluster_overrides);
        for change in of_package.into_iter().chain(of_cluster) {
            let Some(path) = change.0["path"].as_str().filter(|it| !it.is_empty()) else {
                continue;
            };
            set(object, path, &change.0["value"]);
        }
    }

    fn refusal(&self, resource: &ApiResource, is_admin: bool) -> Option<String> {
        let (version, kind) = (&resource.api_version, &resource.kind);
        let listed = |list: &[KindsOfVersion]| {
            let mut of_version = list.iter().filter(|it| it.api_version == *version);
            of_version.any(|it| it.kinds.iter().any(|it| it == "*" || it == kind))
        };
        if !is_admin {
            return (resource.group == policy::GROUP).then(|| {
                format!(
                    "not deployed by a subscription admin. the resource apiVersion: {version} kind: {kind} is not deployed"
                )
            });
        }
        let spec = &self.subscription.spec;
        let said =
            |which: &str| format!("the resource apiVersion: {version} kind: {kind} is {which} list. Not deployed");
        if listed(&spec.deny) {
            return Some(said("on the deny"));
        }
        (!spec.allow.is_empty() && !listed(&spec.allow)).then(|| said("not on the allow"))
    }

    /// Says whose it is.
    fn mark(&self, object: &mut Value, option: Option<ReconcileOption>, is_admin: bool) {
        let own_labels = self.subscription.labels();
        for (key, value) in own_labels.iter().filter(|(key, _)| *key != labels::SUBSCRIPTION_PAUSE) {
            let all = within(metadata(object), "labels");
            all.entry(key.as_str()).or_insert_with(|| value.as_str().into());
        }
        let is_subscription = object["kind"] == "Subscription" && object["apiVersion"] == Subscription::API_VERSION;
        let all = within(metadata(object), "annotations");
        let mut put = |key: &str, value: &str| drop(all.insert(key.to_owned(), value.into()));
        put(annotations::HOSTING_SUBSCRIPTION, &key_of(self.subscription));
        put(annotations::RECONCILE_OPTION, option.unwrap_or_default().as_str());
        if is_admin {
            put(annotations::CLUSTER_ADMIN, "true");
        }
        if is_subscription {
            for key in [annotations::USER_IDENTITY, annotations::USER_GROUP] {
                put(key, self.subscription.annotation(key).unwrap_or_default());
            }
        }
        if !is_admin {
            // What the source says of it counts nothing.
            all.remove(annotations::CLUSTER_ADMIN);
        }
    }
}

/// A namespace that something is to be in and that is not there.
pub fn namespace(name: &str, wanted: &ObjectToDeploy) -> Value {
    let mut all = Map::new();
    for key in [annotations::HOSTING_SUBSCRIPTION, annotations::CLUSTER_ADMIN] {
        if let Some(value) = wanted.object["metadata"]["annotations"].get(key) {
            all.insert(key.to_owned(), value.clone());
        }
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": all}})
}

/// The metadata of an object, whatever was there.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let fields = object.as_object_mut().expect("it was made one");
    within(fields, "metadata")
}

fn within<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let inner = fields.entry(name).or_insert_with(|| json!({}));
    if !inner.is_object() {
        *inner = json!({});
    }
    inner.as_object_mut().expect("it was made one")
}

/// Sets a field by its dotted path. One that leads through something else than fields changes nothing, as upstream has
/// it.
fn set(object: &mut Value, path: &str, value: &Value) {
    let mut at = object;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let Some(fields) = at.as_object_mut() else { return };
        if parts.peek().is_none() {
            fields.insert(part.to_owned(), value.clone());
            return;
        }
        at = fields.entry(part).or_insert_with(|| json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str, namespaced: bool) -> DiscoveredKind {
        let api_version = if group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{group}/v1")
        };
        DiscoveredKind {
            api_resource: ApiResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                api_version,
                kind: kind.to_owned(),
                plural: format!("{}s", kind.to_lowercase()),
            },
            namespaced,
        }
    }

    fn subscription(annotations: Value, spec: Value) -> Subscription {
        serde_json::from_value(json!({
            "metadata": {"name": "app", "namespace": "team", "labels": {"app": "shop", "subscription-pause": "false"},
                         "annotations": annotations},
            "spec": spec,
        }))
        .unwrap()
    }

    fn wanted(
        subscription: &Subscription,
        template: Value,
        kind: &DiscoveredKind,
    ) -> Option<Result<ObjectToDeploy, String>> {
        let rules = DeploymentRules {
            subscription,
            cluster: "c1",
            may_be_admin: true,
        };
        let wanted = rules.wanted(&template, Some(kind))?;
        Some(wanted.map_err(|it| it.message))
    }

    fn admin() -> Value {
        json!({annotations::CLUSTER_ADMIN: "true"})
    }

    fn config_map(namespace: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace,
               "labels": {"app": "own"}}})
    }

    #[test]
    fn objects_of_users_land_in_the_subscriptions_namespace() {
        let maps = kind("", "ConfigMap", true);
        let it = wanted(&subscription(json!({}), json!({})), config_map("kube-system"), &maps)
            .unwrap()
            .unwrap();
        assert_eq!(it.namespace, "team");
        assert_eq!(it.object["metadata"]["labels"], json!({"app": "own"}));
        let marks = json!({
            annotations::HOSTING_SUBSCRIPTION: "team/app", annotations::RECONCILE_OPTION: "merge",
        });
        assert_eq!(it.object["metadata"]["annotations"], marks);
        let it = wanted(&subscription(admin(), json!({})), config_map("kube-system"), &maps)
            .unwrap()
            .unwrap();
        assert_eq!((it.namespace.as_str(), it.is_admin), ("kube-system", true));
        let scoped = json!({annotations::CLUSTER_ADMIN: "true", annotations::CURRENT_NAMESPACE_SCOPED: "true"});
        let it = wanted(&subscription(scoped, json!({})), config_map("kube-system"), &maps)
            .unwrap()
            .unwrap();
        assert_eq!(it.namespace, "team");
    }

    #[test]
    fn a_source_cannot_make_itself_an_administrator() {
        let mut template = config_map("");
        template["metadata"]["annotations"] = admin();
        let maps = kind("", "ConfigMap", true);
        let it = wanted(&subscription(json!({}), json!({})), template, &maps)
            .unwrap()
            .unwrap();
        assert_eq!(
            it.object["metadata"]["annotations"].get(annotations::CLUSTER_ADMIN),
            None
        );
    }

    #[test]
    fn lists_of_kinds_are_for_administrators() {
        let (maps, policies) = (kind("", "ConfigMap", true), kind(policy::GROUP, "Policy", true));
        let said = |annotations: Value, spec: Value, kind: &DiscoveredKind| {
            wanted(&subscription(annotations, spec), config_map(""), kind)
                .unwrap()
                .err()
                .unwrap_or_default()
        };
        let policy = said(json!({}), json!({}), &policies);
        let version = "policy.open-cluster-management.io/v1";
        let refused = format!(
            "not deployed by a subscription admin. the resource apiVersion: {version} kind: Policy is not deployed"
        );
        assert_eq!(policy, refused);
        assert_eq!(said(admin(), json!({}), &policies), "");
        let deny = json!({"deny": [{"apiVersion": "v1", "kinds": ["*"]}]});
        let denied = "the resource apiVersion: v1 kind: ConfigMap is on the deny list. Not deployed";
        assert_eq!(said(admin(), deny.clone(), &maps), denied);
        assert_eq!(said(json!({}), deny, &maps), "");
        let allow = json!({"allow": [{"apiVersion": "v1", "kinds": ["Secret"]}]});
        let not_allowed = "the resource apiVersion: v1 kind: ConfigMap is not on the allow list. Not deployed";
        assert_eq!(said(admin(), allow, &maps), not_allowed);
    }

    #[test]
    fn a_filter_selects_by_name_labels_and_annotations() {
        let maps = kind("", "ConfigMap", true);
        let is_taken = |spec: Value| wanted(&subscription(json!({}), spec), config_map(""), &maps).is_some();
        assert!(is_taken(json!({"name": "b"})));
        assert!(!is_taken(json!({"name": "b", "packageFilter": {}})));
        let labelled = |value: &str| json!({"packageFilter": {"labelSelector": {"matchLabels": {"app": value}}}});
        assert!(is_taken(labelled("own")) && !is_taken(labelled("other")));
        assert!(!is_taken(json!({"packageFilter": {"annotations": {"a": "b"}}})));
    }

    #[test]
    fn overrides_are_those_of_the_object_and_the_cluster() {
        let maps = kind("", "ConfigMap", true);
        let spec = json!({
            "packageOverrides": [{"packageName": "a", "packageOverrides": [{"path": "data.a", "value": "1"}]}],
            "overrides": [
                {"clusterName": "c2", "clusterOverrides": [{"path": "data.b", "value": "2"}]},
                {"clusterName": "c1", "clusterOverrides": [{"path": "data.c", "value": "3"}, {"path": "kind.x", "value": 1}]},
            ],
        });
        let it = wanted(&subscription(json!({}), spec), config_map(""), &maps)
            .unwrap()
            .unwrap();
        assert_eq!(it.object["data"], json!({"a": "1", "c": "3"}));
        assert_eq!(it.object["kind"], "ConfigMap");
    }

    #[test]
    fn what_has_no_name_has_the_subscriptions() {
        let it = wanted(
            &subscription(json!({}), json!({})),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": 7}),
            &kind("", "Namespace", false),
        );
        let it = it.unwrap().unwrap();
        assert_eq!((it.name.as_str(), it.namespace.as_str()), ("app", ""));
    }
}
