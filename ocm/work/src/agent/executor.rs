//! Whether the ServiceAccount a work names as its executor may do what the work asks for.
//! Upstream: ocm pkg/work/spoke/auth. The agent writes as itself; the executor is a gate in front of it.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::{join_all, try_join_all};
use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
    core::Request,
};
use ocm_api::work::{ManifestWorkExecutor, ManifestWorkExecutorSubjectType};
use ocm_reconcile::{
    Step,
    access::{self, Attributes, UserInfo},
    segment,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    grants::Grants,
    manifest::{Gvk, ObjectKey, api_version},
    strategy,
};

/// After a refusal the executor's rights are looked at again this much later.
pub const REFUSED_FOR: Duration = Duration::from_secs(60);

/// Why a manifest may not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorRefusal {
    /// The executor lacks a right; it may be granted later.
    NotAllowed(String),
    /// The work does not name an executor we can check, or the check failed.
    Unchecked(String),
}

impl ExecutorRefusal {
    /// What the manifest's condition says.
    pub fn message(&self) -> &str {
        match self {
            ExecutorRefusal::NotAllowed(text) | ExecutorRefusal::Unchecked(text) => text,
        }
    }
}

/// What one manifest needs of an executor.
#[derive(Clone, Debug)]
pub struct PermissionRequest<'a> {
    pub gvk: &'a Gvk,
    pub key: &'a ObjectKey,
    /// Whether the object goes with the work, so that the right to delete is needed too.
    pub owned: bool,
    /// The manifest, for the escalation check.
    pub object: &'a Value,
    /// Of the work: a new generation is always checked anew.
    pub generation: Option<i64>,
}

/// What is tried in the executor's name.
enum Write<'a> {
    Create(&'a Value),
    /// With the field manager of the write, because what that one has set before and leaves out goes.
    Apply(&'a Value, &'a str),
    Replace(&'a Value),
}

/// The verbs an executor needs, in the order in which upstream asks.
pub fn verbs(owned: bool) -> &'static [&'static str] {
    if owned {
        &["create", "update", "patch", "get", "delete"]
    } else {
        &["create", "update", "patch", "get"]
    }
}

/// The executor as the API server of the cluster sees it.
pub fn subject(executor: &ManifestWorkExecutor) -> Result<UserInfo, ExecutorRefusal> {
    // Only this type exists today; upstream's message for another one is kept for the day there is one.
    let ManifestWorkExecutorSubjectType::ServiceAccount = executor.subject.r#type;
    let Some(account) = &executor.subject.service_account else {
        return Err(ExecutorRefusal::Unchecked(
            "the executor service account is nil".to_owned(),
        ));
    };
    // A colon would make it another account, and what else is no name tears a header apart.
    let is_name = |it: &str| {
        !it.is_empty()
            && it
                .bytes()
                .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.".contains(&it))
    };
    if !is_name(&account.namespace) || !is_name(&account.name) {
        return Err(ExecutorRefusal::Unchecked(format!(
            "the executor service account {:?} in namespace {:?} is no name of one",
            account.name, account.namespace
        )));
    }
    Ok(UserInfo {
        user: format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            "system:authenticated".to_owned(),
            format!("system:serviceaccounts:{}", account.namespace),
        ],
        ..UserInfo::default()
    })
}

/// Whether a manifest could grant rights, so that the executor must hold them itself.
pub fn grants_rights(key: &ObjectKey) -> bool {
    key.group == "rbac.authorization.k8s.io"
        && matches!(
            key.resource.as_str(),
            "roles" | "rolebindings" | "clusterroles" | "clusterrolebindings"
        )
}

/// What the API server says of who may not speak for somebody else, in the older words and in those of constrained
/// impersonation.
const CANNOT_IMPERSONATE: &str = "cannot impersonate";

/// Why an API server did not let the executor make the object. Upstream says of every refusal that it is an escalation.
fn reason(refusal: &str) -> String {
    if refusal.contains(CANNOT_IMPERSONATE) {
        format!("the agent lacks the right to ask in the executor's name: {refusal}")
    } else {
        "permission escalation".to_owned()
    }
}

/// Upstream's sentence for a denial, with its reason if there is more to say.
pub fn not_allowed(key: &ObjectKey, reason: Option<&str>) -> ExecutorRefusal {
    let ObjectKey {
        group,
        resource,
        namespace,
        name,
        ..
    } = key;
    let reason = reason.map(|it| format!(", error: {it}")).unwrap_or_default();
    ExecutorRefusal::NotAllowed(format!(
        "not allowed to apply the resource {group} {resource}, {namespace} {name}{reason}, will try again in 1m0s"
    ))
}

type Question = (String, ObjectKey, bool, Option<i64>);

/// An answer, when it was given, and how often the rights had changed before it was asked for.
type Answer = (Instant, u64, Result<(), ExecutorRefusal>);

/// Asks the cluster, and remembers the answers until rights change, and not for long.
pub struct Executors {
    client: Client,
    cancel: CancellationToken,
    grants: Arc<Grants>,
    answers: Mutex<HashMap<Question, Answer>>,
}

impl Executors {
    /// Nothing was asked yet.
    pub fn new(client: Client, cancel: CancellationToken) -> Self {
        Self {
            client,
            cancel,
            grants: Arc::default(),
            answers: Mutex::default(),
        }
    }

    /// Returns when rights have changed, so that what was answered before may be answered otherwise.
    pub async fn changed(&self) {
        self.grants.changed().await;
    }

    /// Whether the executor may apply this manifest.
    pub async fn permit(
        &self,
        executor: &ManifestWorkExecutor,
        request: PermissionRequest<'_>,
    ) -> Result<(), ExecutorRefusal> {
        let subject = subject(executor)?;
        // Whether it would be an escalation depends on what is in it, which no other manifest of this name has to
        // share.
        if grants_rights(request.key) {
            return self.ask(&subject, &request).await;
        }
        let question = (
            subject.user.clone(),
            request.key.clone(),
            request.owned,
            request.generation,
        );
        self.grants.begin(&self.client, &self.cancel);
        // Before it is asked: a change that comes in between makes the answer one of before.
        let epoch = self.grants.epoch();
        let holds = self.grants.holds();
        let stands = |(at, of, _): &Answer| *of == epoch && at.elapsed() < holds;
        if let Some(answer) = self.answers.lock().get(&question).filter(|it| stands(it)) {
            return answer.2.clone();
        }
        let answer = self.ask(&subject, &request).await;
        let mut answers = self.answers.lock();
        answers.retain(|_, it| stands(it));
        if !matches!(answer, Err(ExecutorRefusal::Unchecked(_))) {
            answers.insert(question, (Instant::now(), epoch, answer.clone()));
        }
        answer
    }

    async fn ask(&self, subject: &UserInfo, request: &PermissionRequest<'_>) -> Result<(), ExecutorRefusal> {
        let key = request.key;
        let questions = verbs(request.owned).iter().map(|verb| async move {
            let attributes = Attributes {
                verb: (*verb).to_owned(),
                group: key.group.clone(),
                resource: key.resource.clone(),
                subresource: None,
                namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
                name: Some(key.name.clone()),
            };
            access::may(&self.client, subject, &attributes).await
        });
        let answers = try_join_all(questions)
            .await
            .map_err(|error| ExecutorRefusal::Unchecked(error.to_string()))?;
        if !answers.into_iter().all(|it| it) {
            return Err(not_allowed(key, None));
        }
        if !grants_rights(key) {
            return Ok(());
        }
        match self.try_as(subject, key, &Write::Create(request.object)).await? {
            Ok(()) => Ok(()),
            // The write will be one into what is there: see `permit_write`.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(ExecutorRefusal::Unchecked(error.to_string())),
        }
    }

    /// Whether the executor itself could make this write of something that grants rights.
    ///
    /// [`permit`](Self::permit) asks about the manifest as if there were no object yet. A write into one that is there
    /// keeps what the manifest does not name, such as the rules of a role that only gets a label, and the API server
    /// judges what comes of it.
    pub async fn permit_write(
        &self,
        executor: &ManifestWorkExecutor,
        key: &ObjectKey,
        step: &Step,
    ) -> Result<(), ExecutorRefusal> {
        let write = match step {
            Step::Apply {
                object, field_manager, ..
            } => Write::Apply(object, field_manager),
            Step::Replace {
                object,
                subresource: None,
                ..
            } => Write::Replace(object),
            // What is created was asked about whole; the other writes are of owners, and of labels that go.
            _ => return Ok(()),
        };
        if !grants_rights(key) {
            return Ok(());
        }
        match self.try_as(&subject(executor)?, key, &write).await? {
            Ok(()) => Ok(()),
            // The write itself will be refused for the same reason, and another be decided: of a state that is old by
            // now, or of what is no typed object.
            Err(kube::Error::Api(status)) if status.code == 409 && matches!(write, Write::Replace(_)) => Ok(()),
            Err(kube::Error::Api(status)) if strategy::is_untyped(&status.message) => Ok(()),
            Err(error) => Err(ExecutorRefusal::Unchecked(error.to_string())),
        }
    }

    /// A dry run as the executor: the API server itself says whether it would be an escalation. What else it says is
    /// for the caller to judge.
    async fn try_as(
        &self,
        subject: &UserInfo,
        key: &ObjectKey,
        write: &Write<'_>,
    ) -> Result<Result<(), kube::Error>, ExecutorRefusal> {
        let unchecked = |it: String| ExecutorRefusal::Unchecked(it);
        let bytes = |it: &Value| serde_json::to_vec(it).map_err(|it| unchecked(it.to_string()));
        let collection = Request::new(collection_path(key));
        let name = segment::encoded(&key.name);
        let params = PostParams {
            dry_run: true,
            field_manager: None,
        };
        let http = match write {
            Write::Create(object) => collection.create(&params, bytes(object)?),
            Write::Replace(object) => collection.replace(&name, &params, bytes(object)?),
            // Forced, though the write may not be: a conflict would end it before anybody asks what it grants.
            Write::Apply(object, manager) => {
                let params = PatchParams::apply(manager).force().dry_run();
                collection.patch(&name, &params, &Patch::Apply(object))
            }
        };
        let mut http = http.map_err(|it| unchecked(it.to_string()))?;
        let user = subject.user.parse();
        let user = user.map_err(|_| unchecked("the executor's name fits no header".to_owned()))?;
        // Without groups, which would need rights of their own: the API server adds those of a ServiceAccount itself.
        http.headers_mut().insert("Impersonate-User", user);
        match self.client.request::<Value>(http).await {
            Ok(_) => Ok(Ok(())),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                Err(not_allowed(key, Some(&reason(&status.message))))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Several manifests at once; the answers come in the order of the requests.
    pub async fn permit_all(
        &self,
        executor: &ManifestWorkExecutor,
        requests: Vec<PermissionRequest<'_>>,
    ) -> Vec<Result<(), ExecutorRefusal>> {
        join_all(requests.into_iter().map(|it| self.permit(executor, it))).await
    }
}

fn collection_path(key: &ObjectKey) -> String {
    let root = if key.group.is_empty() { "/api" } else { "/apis" };
    let version = api_version(&key.group, &key.version);
    let (version, resource) = (segment::encoded_api_version(&version), segment::encoded(&key.resource));
    match key.namespace.as_str() {
        "" => format!("{root}/{version}/{resource}"),
        namespace => format!("{root}/{version}/namespaces/{}/{resource}", segment::encoded(namespace)),
    }
}

#[cfg(test)]
mod tests {
    use ocm_api::work::{ManifestWorkExecutorSubject, ManifestWorkSubjectServiceAccount};

    use super::*;

    fn key(group: &str, resource: &str) -> ObjectKey {
        ObjectKey {
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            namespace: "default".into(),
            name: "a".into(),
        }
    }

    #[test]
    fn an_executor_has_the_user_and_groups_of_its_account() {
        let account = ManifestWorkSubjectServiceAccount {
            namespace: "ns".into(),
            name: "sa".into(),
        };
        let executor = ManifestWorkExecutor {
            subject: ManifestWorkExecutorSubject {
                service_account: Some(account),
                ..Default::default()
            },
        };
        let subject = subject(&executor).unwrap();
        assert_eq!(subject.user, "system:serviceaccount:ns:sa");
        assert_eq!(
            subject.groups,
            [
                "system:serviceaccounts",
                "system:authenticated",
                "system:serviceaccounts:ns"
            ]
        );
        assert_eq!(
            super::subject(&ManifestWorkExecutor::default()).unwrap_err().message(),
            "the executor service account is nil"
        );
    }

    #[test]
    fn a_denial_has_upstreams_message() {
        assert_eq!(
            not_allowed(&key("apps", "deployments"), None).message(),
            "not allowed to apply the resource apps deployments, default a, will try again in 1m0s"
        );
        assert_eq!(
            not_allowed(
                &key("rbac.authorization.k8s.io", "roles"),
                Some(&reason("roles.rbac.authorization.k8s.io \"a\" is forbidden: user \"x\" is attempting to grant RBAC permissions not currently held"))
            )
            .message(),
            "not allowed to apply the resource rbac.authorization.k8s.io roles, default a, error: permission escalation, will try again in 1m0s"
        );
        let lacks = "serviceaccounts \"x\" is forbidden: User \"y\" cannot impersonate resource \"serviceaccounts\"";
        assert_eq!(
            reason(lacks),
            format!("the agent lacks the right to ask in the executor's name: {lacks}")
        );
        assert_eq!(verbs(true).last(), Some(&"delete"));
        assert_eq!(verbs(false).len(), 4);
        assert!(grants_rights(&key("rbac.authorization.k8s.io", "roles")));
        assert!(!grants_rights(&key("", "roles")));
    }

    #[test]
    fn the_dry_run_goes_to_the_collection() {
        assert_eq!(
            collection_path(&key("apps", "deployments")),
            "/apis/apps/v1/namespaces/default/deployments"
        );
        assert_eq!(
            collection_path(&ObjectKey {
                namespace: String::new(),
                ..key("", "nodes")
            }),
            "/api/v1/nodes"
        );
    }
}
