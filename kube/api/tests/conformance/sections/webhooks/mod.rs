//! Admission webhooks: what they are told, which writes they see, and what their answers do.
//!
//! The server has to reach the loopback address of this process. A webhook is asked about one namespace of its check,
//! or about objects with a label of it, so that checks beside it are left alone.

mod answers;
mod calls;
mod configurations;
mod matching;
mod requests;

use crate::{
    check::{Check, must, should},
    client::{Ask, Reply},
    cx::{Cx, WHO, config_map},
    webhook::{Seen, Webhook},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub fn checks() -> Vec<Check> {
    let all = vec![
        must(
            "155",
            "a validating webhook's denial has its text, code, reason and details; a configuration has its defaults and rules",
            answers::denials,
        ),
        must(
            "156",
            "a mutating webhook's JSON patch is applied, and its result is validated",
            answers::patches,
        ),
        must(
            "157",
            "a webhook that is not there, late, not trusted or makes no sense fails the write, or is passed over",
            calls::failures,
        ),
        must(
            "158",
            "an AdmissionReview tells of object, old object, options, user and dry run, for each verb and subresource",
            requests::reviews,
        ),
        must(
            "159",
            "a webhook sees what its selectors, scope, operations and matchPolicy choose, equivalent versions converted",
            matching::chosen,
        ),
        should(
            "160",
            "matchConditions decide; one that cannot be evaluated is the failure policy's",
            matching::conditions,
        ),
        should(
            "161",
            "a webhook with reinvocationPolicy IfNeeded is asked again after a later change",
            answers::again,
        ),
        should(
            "162",
            "warnings of a webhook reach the client, whatever its answer is",
            answers::warnings,
        ),
        must(
            "163",
            "a dry run is judged, says that it is one, and stores nothing",
            answers::dry_run,
        ),
        must(
            "164",
            "clientConfig.service is called at the Service's host and port, by the Service's name",
            calls::service,
        ),
    ];
    all.into_iter().map(Check::called_back).collect()
}

const VALIDATING: &str = "Validating";
const MUTATING: &str = "Mutating";

/// The collection of such configurations.
fn configurations(role: &str) -> String {
    let role = role.to_lowercase();
    format!("/apis/admissionregistration.k8s.io/v1/{role}webhookconfigurations")
}

/// Chooses one namespace.
fn only(namespace: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}})
}

/// Rules for every write to these resources.
fn rules(resources: &[&str]) -> Value {
    json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}])
}

/// A webhook `<name>.example.com` of every write to ConfigMaps; `more` adds to it and replaces parts of it.
fn webhook(name: &str, config: Value, more: Value) -> Value {
    let mut it = json!({
        "name": format!("{name}.example.com"), "clientConfig": config, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": rules(&["configmaps"]),
    });
    for (key, value) in more.as_object().unwrap() {
        it[key] = value.clone();
    }
    it
}

fn configuration(role: &str, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{role}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": webhooks,
    })
}

/// Configures webhooks and returns when the server goes by them, which on a real one takes a moment: one more webhook
/// of the same configuration is asked by then.
async fn configure(c: &Cx, role: &str, what: &str, webhooks: &[Value]) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let probe = Webhook::judge(|_, _| json!({"allowed": true})).await;
    let namespace = c.namespace_called(&format!("probe-{what}")).await;
    let more = json!({
        "namespaceSelector": only(&namespace), "objectSelector": {"matchLabels": {"probe": "yes"}},
    });
    let mut all = vec![webhook("probe", probe.config("/"), more)];
    all.extend_from_slice(webhooks);
    c.make(&configurations(role), configuration(role, &c.name(what), &all))
        .await;
    let mut object = config_map("probe", json!({}));
    object["metadata"]["labels"] = json!({"probe": "yes"});
    let ask = Ask::post(format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All"), &object);
    let start = Instant::now();
    let mut turn = tokio::time::interval(Duration::from_millis(50));
    while probe.take().is_empty() {
        turn.tick().await;
        let reply = c.send(ask.clone()).await;
        let waited = start.elapsed();
        assert!(
            reply.code == 201 && waited < PATIENCE,
            "the server has to reach the loopback address of this process, and did not ask a webhook there within {waited:?}: {}",
            reply.came()
        );
    }
}

/// A namespace that a webhook judges.
struct Judged {
    c: Cx,
    namespace: String,
    maps: String,
    hook: Webhook,
    /// Who the check is, as the server says.
    me: Value,
}

impl Judged {
    /// A validating webhook of ConfigMaps in a namespace of its own.
    async fn by(c: &Cx, what: &str, hook: Webhook, more: Value) -> Self {
        Self::as_a(VALIDATING, c, what, hook, more).await
    }

    async fn as_a(role: &str, c: &Cx, what: &str, hook: Webhook, more: Value) -> Self {
        let it = Self::unjudged(c, what, hook).await;
        let mut whole = json!({"namespaceSelector": only(&it.namespace)});
        for (key, value) in more.as_object().unwrap() {
            whole[key] = value.clone();
        }
        configure(c, role, what, &[webhook("test", it.hook.config("/judge"), whole)]).await;
        it
    }

    /// The namespace, before its webhook is configured.
    async fn unjudged(c: &Cx, what: &str, hook: Webhook) -> Self {
        let namespace = c.namespace_called(what).await;
        Self {
            maps: format!("/api/v1/namespaces/{namespace}/configmaps"),
            namespace,
            hook,
            me: c.post(WHO, json!({})).await.is(201).at("/status/userInfo").clone(),
            c: c.clone(),
        }
    }

    /// Creates a ConfigMap with one entry.
    async fn map(&self, name: &str) -> Reply {
        self.c.post(&self.maps, config_map(name, json!({"a": "b"}))).await
    }

    /// What the check's own requests had the server ask, since this was last called. Its controllers write too.
    fn asked(&self) -> Vec<Seen> {
        let mut all = self.hook.take();
        all.retain(|it| it.review["request"]["userInfo"]["username"] == self.me["username"]);
        all
    }

    /// The `request` of the last review.
    fn last(&self) -> Value {
        let last = self.asked().pop().expect("the webhook was asked");
        last.review["request"].clone()
    }
}

/// A webhook that denies what it sees.
async fn denying() -> Webhook {
    Webhook::judge(|_, _| json!({"allowed": false})).await
}

async fn allowing() -> Webhook {
    Webhook::judge(|_, _| json!({"allowed": true})).await
}
