//! Which works the hub takes. Pure rules that an API server calls in-process or behind a webhook.
//! Upstream: ocm pkg/work/webhook/v1/manifestwork_validating.go and pkg/work/webhook/common.

use std::collections::BTreeSet;

use ocm_api::{finalizers, identity};
use ocm_reconcile::access::Attributes;
use serde_json::{Value, json};

/// Upstream's limit for all manifests of a work together.
pub const MANIFESTS_BYTES_MAX: usize = 500 * 1024;

/// What is being done with the work. Deletions are not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOperation {
    Create,
    Update,
}

/// What can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionOptions {
    pub manifests_bytes_max: usize,
    /// Gate `NilExecutorValidating`: a work without an executor is checked like one with the agent's own account.
    pub nil_executor_is_checked: bool,
    /// Gate `ManifestWorkReplicaSet`.
    pub replica_sets_are_taken: bool,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        Self {
            manifests_bytes_max: MANIFESTS_BYTES_MAX,
            nil_executor_is_checked: false,
            replica_sets_are_taken: true,
        }
    }
}

/// Why a work is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// The HTTP status: 400 as upstream, but for what agents may not do.
    pub code: u16,
    pub message: String,
}

impl Denial {
    fn new(message: impl Into<String>) -> Self {
        Self {
            code: 400,
            message: message.into(),
        }
    }
}

/// What the requesting user must be allowed, before the work is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub attributes: Attributes,
    /// What to answer when the user is not.
    pub denial: Denial,
}

/// What an agent cannot do with a work that it may otherwise update: hold it by a finalizer that is not its own. The
/// cluster that is denied or gone would keep what the hub wants away.
///
/// # Errors
/// 403 and the finalizer.
pub fn check_finalizers(user: &str, groups: &[String], object: &Value, old: Option<&Value>) -> Result<(), Denial> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    if !identity::is_of_cluster(namespace, user, groups) {
        return Ok(());
    }
    let held = |it: &Value| -> BTreeSet<String> {
        let all = it["metadata"]["finalizers"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let before = old.map(held).unwrap_or_default();
    let foreign = held(object)
        .into_iter()
        .find(|it| it != finalizers::MANIFEST_WORK && !before.contains(it));
    let Some(foreign) = foreign else { return Ok(()) };
    Err(Denial {
        code: 403,
        message: format!(
            "manifestworks.work.open-cluster-management.io \"{name}\" is forbidden: user \"{user}\" is an agent and cannot add \
             {foreign} to metadata.finalizers: agents add {} alone",
            finalizers::MANIFEST_WORK
        ),
    })
}

/// Checks a work. What the rules alone cannot decide is asked of `may`: whether the requesting user has a right.
///
/// `object` and `old` are whole ManifestWorks; `user` is the requesting user's name.
pub fn review(
    rules: &AdmissionOptions,
    user: &str,
    operation: WorkOperation,
    object: &Value,
    old: Option<&Value>,
    may: impl FnOnce(&Attributes) -> bool,
) -> Result<(), Denial> {
    match check(rules, user, operation, object, old)? {
        Some(question) if !may(&question.attributes) => Err(question.denial),
        _ => Ok(()),
    }
}

/// The same for callers who cannot answer at once: everything but the answer.
pub fn check(
    rules: &AdmissionOptions,
    user: &str,
    operation: WorkOperation,
    object: &Value,
    old: Option<&Value>,
) -> Result<Option<Question>, Denial> {
    let none = Vec::new();
    manifests(
        rules,
        object
            .pointer("/spec/workload/manifests")
            .and_then(Value::as_array)
            .unwrap_or(&none),
    )?;
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    let spec = |it: &Value| it.get("spec").cloned().unwrap_or_default();
    executor(
        rules,
        user,
        operation,
        namespace.unwrap_or_default(),
        &spec(object),
        old.map(spec).as_ref(),
    )
}

/// Checks a ManifestWorkReplicaSet, as [`review`] does a work. Upstream has the rules for its manifests and, in a
/// standard installation, nothing that asks them; and whoever could write a set could have its controller name any
/// executor on every cluster. Here an executor in the template needs the right to execute as it in all namespaces.
pub fn review_replica_set(
    rules: &AdmissionOptions,
    user: &str,
    operation: WorkOperation,
    object: &Value,
    old: Option<&Value>,
    may: impl FnOnce(&Attributes) -> bool,
) -> Result<(), Denial> {
    match check_replica_set(rules, user, operation, object, old)? {
        Some(question) if !may(&question.attributes) => Err(question.denial),
        _ => Ok(()),
    }
}

/// [`review_replica_set`] for callers who cannot answer at once: everything but the answer.
pub fn check_replica_set(
    rules: &AdmissionOptions,
    user: &str,
    operation: WorkOperation,
    object: &Value,
    old: Option<&Value>,
) -> Result<Option<Question>, Denial> {
    let is_leaving = !object["metadata"]["deletionTimestamp"].is_null();
    if operation == WorkOperation::Update && is_leaving {
        // Its finalizer has to come off, whatever the rules are by now.
        return Ok(None);
    }
    if !rules.replica_sets_are_taken {
        return Err(Denial::new("ManifestWorkReplicaSet feature is disabled"));
    }
    let template = |it: &Value| it.pointer("/spec/manifestWorkTemplate").cloned().unwrap_or_default();
    let (wanted, before) = (template(object), old.map(template));
    let none = Vec::new();
    let list = wanted.pointer("/workload/manifests").and_then(Value::as_array);
    manifests(rules, list.unwrap_or(&none))?;
    executor(rules, user, operation, "", &wanted, before.as_ref())
}

/// Checks the manifests of a work, or of the template of a ManifestWorkReplicaSet.
pub fn manifests(rules: &AdmissionOptions, manifests: &[Value]) -> Result<(), Denial> {
    if manifests.is_empty() {
        return Err(Denial::new("manifests should not be empty"));
    }
    let size: usize = manifests.iter().map(size_of).sum();
    let limit = rules.manifests_bytes_max;
    if size > limit {
        return Err(Denial::new(format!(
            "the size of manifests is {size} bytes which exceeds the {limit} limit"
        )));
    }
    let mut known = BTreeSet::new();
    for manifest in manifests {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, version) = (text("/kind"), text("/apiVersion"));
        if kind.is_empty() {
            return Err(Denial::new(format!("Object 'Kind' is missing in '{manifest}'")));
        }
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        if name.is_empty() {
            return Err(Denial::new("name must be set in manifest"));
        }
        if !text("/metadata/generateName").is_empty() {
            return Err(Denial::new("generateName must not be set in manifest"));
        }
        if !known.insert((version, kind, namespace, name)) {
            return Err(Denial::new(format!(
                "duplicate manifest for resource {namespace}/{name} with resource type {version}.{kind}"
            )));
        }
    }
    Ok(())
}

/// As upstream counts: the protobuf size of the embedded JSON, which is a tag, the length as varint, and the text.
fn size_of(manifest: &Value) -> usize {
    let length = manifest.to_string().len();
    let bits = usize::BITS - (length | 1).leading_zeros();
    1 + bits.div_ceil(7) as usize + length
}

/// `namespace` is empty for the right to do so everywhere.
fn executor(
    rules: &AdmissionOptions,
    user: &str,
    operation: WorkOperation,
    namespace: &str,
    spec: &Value,
    old: Option<&Value>,
) -> Result<Option<Question>, Denial> {
    let of = |spec: &Value| spec.get("executor").filter(|it| !it.is_null()).cloned();
    let wanted = of(spec);
    if operation == WorkOperation::Update && wanted == old.and_then(of) {
        return Ok(None);
    }
    let executor = match wanted {
        Some(executor) => executor,
        None if rules.nil_executor_is_checked => {
            json!({"subject": {"serviceAccount": {"namespace": "", "name": "klusterlet-work-sa"}}})
        }
        None => return Ok(None),
    };
    let Some(account) = executor.pointer("/subject/serviceAccount").filter(|it| !it.is_null()) else {
        return Err(Denial::new("executor service account can not be nil"));
    };
    let text = |field: &str| account[field].as_str().unwrap_or_default();
    let (account_namespace, account_name) = (text("namespace"), text("name"));
    let place = match namespace {
        "" => "all namespaces".to_owned(),
        one => format!("namespace {one}"),
    };
    Ok(Some(Question {
        attributes: Attributes {
            verb: "execute-as".to_owned(),
            group: ocm_api::work::GROUP.to_owned(),
            resource: "manifestworks".to_owned(),
            subresource: None,
            namespace: Some(namespace.to_owned()),
            name: Some(format!("system:serviceaccount:{account_namespace}:{account_name}")),
        },
        denial: Denial::new(format!(
            "user {user} cannot manipulate the Manifestwork with executor {account_namespace}/{account_name} in {place}"
        )),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
    }

    fn work(manifests: &[Value], executor: Value) -> Value {
        json!({"metadata": {"namespace": "cluster1"}, "spec": {"workload": {"manifests": manifests}, "executor": executor}})
    }

    fn create(manifests: &[Value]) -> String {
        let object = work(manifests, Value::Null);
        review(
            &AdmissionOptions::default(),
            "user",
            WorkOperation::Create,
            &object,
            None,
            |_| true,
        )
        .map_or_else(|it| format!("{} {it}", it.code), |()| "taken".to_owned())
    }

    #[test]
    fn manifests_that_cannot_be_applied_are_refused_at_the_door() {
        let mut generated = config_map("a");
        generated["metadata"]["generateName"] = json!("a-");
        let mut unnamed = config_map("");
        unnamed["metadata"]["generateName"] = json!("a-");
        let table = [
            (vec![config_map("a"), config_map("b")], "taken"),
            (vec![], "400 manifests should not be empty"),
            (
                vec![json!({"metadata": {}})],
                "400 Object 'Kind' is missing in '{\"metadata\":{}}'",
            ),
            (vec![unnamed], "400 name must be set in manifest"),
            (vec![generated], "400 generateName must not be set in manifest"),
            (
                vec![config_map("a"), config_map("a")],
                "400 duplicate manifest for resource default/a with resource type v1.ConfigMap",
            ),
        ];
        for (manifests, expected) in table {
            assert_eq!(create(&manifests), expected);
        }
        let mut big = config_map("a");
        big["data"] = json!({"k": "x".repeat(500 * 1024)});
        let shown = create(&[big]);
        assert!(
            shown.starts_with("400 the size of manifests is 512") && shown.ends_with("exceeds the 512000 limit"),
            "{shown}"
        );
    }

    #[test]
    fn the_size_is_counted_as_upstream_counts_it() {
        let manifest = json!({"k": "x".repeat(192)});
        assert_eq!(manifest.to_string().len(), 200);
        assert_eq!(size_of(&manifest), 203);
    }

    #[test]
    fn an_agent_holds_a_work_by_its_own_finalizer_alone() {
        let held =
            |finalizers: &[&str]| json!({"metadata": {"namespace": "cluster1", "name": "w", "finalizers": finalizers}});
        let groups = [identity::MANAGED_CLUSTERS_GROUP.to_owned()];
        let agent = "system:open-cluster-management:cluster1:a1";
        let (none, own) = (held(&[]), held(&[finalizers::MANIFEST_WORK]));
        assert_eq!(check_finalizers(agent, &groups, &own, Some(&none)), Ok(()));
        assert_eq!(check_finalizers(agent, &groups, &none, Some(&own)), Ok(()));
        let more = held(&[finalizers::MANIFEST_WORK, "example.com/mine"]);
        assert_eq!(
            check_finalizers(agent, &groups, &more, Some(&own)),
            Err(Denial {
                code: 403,
                message: "manifestworks.work.open-cluster-management.io \"w\" is forbidden: user \
                          \"system:open-cluster-management:cluster1:a1\" is an agent and cannot add example.com/mine to \
                          metadata.finalizers: agents add cluster.open-cluster-management.io/manifest-work-cleanup alone"
                    .to_owned()
            })
        );
        assert!(check_finalizers("system:serviceaccount:cluster1:greeter-agent", &[], &more, Some(&own)).is_err());
        // What somebody else has put there stays where it is, and others add what they like.
        assert_eq!(check_finalizers(agent, &groups, &more, Some(&more)), Ok(()));
        assert_eq!(check_finalizers("jane", &[], &more, Some(&own)), Ok(()));
    }

    #[test]
    fn naming_an_executor_requires_permission_to_execute_as_it() {
        let executor =
            json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "sa"}}});
        let object = work(&[config_map("a")], executor.clone());
        let mut asked = None;
        let denial = review(
            &AdmissionOptions::default(),
            "bob",
            WorkOperation::Create,
            &object,
            None,
            |it| {
                asked = Some(it.clone());
                false
            },
        );
        assert_eq!(
            denial.unwrap_err().message,
            "user bob cannot manipulate the Manifestwork with executor ns/sa in namespace cluster1"
        );
        let asked = asked.unwrap();
        assert_eq!(
            (asked.verb.as_str(), asked.name.as_deref()),
            ("execute-as", Some("system:serviceaccount:ns:sa"))
        );
        let unchanged = review(
            &AdmissionOptions::default(),
            "bob",
            WorkOperation::Update,
            &object,
            Some(&object),
            |_| false,
        );
        assert_eq!(unchanged, Ok(()));
        let without = work(&[config_map("a")], Value::Null);
        assert_eq!(
            review(
                &AdmissionOptions::default(),
                "bob",
                WorkOperation::Create,
                &without,
                None,
                |_| false
            ),
            Ok(())
        );
        let strict = AdmissionOptions {
            nil_executor_is_checked: true,
            ..AdmissionOptions::default()
        };
        assert!(review(&strict, "bob", WorkOperation::Create, &without, None, |_| false).is_err());
        let nobody = work(&[config_map("a")], json!({"subject": {"type": "ServiceAccount"}}));
        assert_eq!(
            review(
                &AdmissionOptions::default(),
                "bob",
                WorkOperation::Create,
                &nobody,
                None,
                |_| true
            )
            .unwrap_err()
            .message,
            "executor service account can not be nil"
        );
    }

    #[test]
    fn a_template_is_checked_like_a_work() {
        let set = |manifests: &[Value], executor: Value| {
            json!({"metadata": {"namespace": "default"}, "spec": {"manifestWorkTemplate": {
                "workload": {"manifests": manifests}, "executor": executor
            }}})
        };
        let review = |rules: &AdmissionOptions, object: &Value, may: bool| {
            let said = review_replica_set(rules, "bob", WorkOperation::Create, object, None, |asked| {
                assert_eq!(asked.namespace.as_deref(), Some(""));
                may
            });
            said.map_or_else(|it| it.message, |()| "taken".to_owned())
        };
        let rules = AdmissionOptions::default();
        assert_eq!(review(&rules, &set(&[config_map("a")], Value::Null), false), "taken");
        assert_eq!(
            review(&rules, &set(&[], Value::Null), true),
            "manifests should not be empty"
        );
        let off = AdmissionOptions {
            replica_sets_are_taken: false,
            ..AdmissionOptions::default()
        };
        let plain = set(&[config_map("a")], Value::Null);
        assert_eq!(review(&off, &plain, true), "ManifestWorkReplicaSet feature is disabled");
        // One that goes may always go.
        let mut leaving = plain.clone();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(
            review_replica_set(&off, "bob", WorkOperation::Update, &leaving, Some(&plain), |_| false),
            Ok(())
        );
        let executor =
            json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "sa"}}});
        let executed = set(&[config_map("a")], executor);
        assert_eq!(review(&rules, &executed, true), "taken");
        assert_eq!(
            review(&rules, &executed, false),
            "user bob cannot manipulate the Manifestwork with executor ns/sa in all namespaces"
        );
        let again = review_replica_set(&rules, "bob", WorkOperation::Update, &executed, Some(&executed), |_| {
            false
        });
        assert_eq!(again, Ok(()));
    }
}
