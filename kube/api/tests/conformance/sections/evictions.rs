//! Evictions of pods, and the disruption budgets that hold them.

use crate::{
    check::{Check, should},
    client::{Ask, Reply},
    cx::Cx,
    sections::delete::pod,
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        should(
            "79",
            "an eviction is 201 and removes the pod; a disruption budget that allows no more of them holds it with 429",
            eviction,
        )
        .embedded_too("a budget that nobody has looked at"),
    ]
}

fn body(name: &str, options: Value) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options})
}

async fn eviction(c: Cx) {
    let path = pod(&c).await;
    c.post(&format!("{path}/eviction"), body("other", json!({})))
        .await
        .fails(400, "BadRequest")
        .says("name in URL does not match name in Eviction object");
    for (change, said) in [
        (
            json!({"metadata": {"name": "p1", "namespace": "default"}}),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (json!({"kind": "Removal"}), "Removal"),
        (
            json!({"deleteOptions": {"gracePeriodSeconds": "x"}}),
            "json: cannot unmarshal string into Go struct field",
        ),
    ] {
        let mut wrong = body("p1", json!({}));
        wrong
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        c.post(&format!("{path}/eviction"), wrong)
            .await
            .fails(400, "BadRequest")
            .mentions(said);
    }
    let mut unknown = body("p1", json!({}));
    unknown["foo"] = 1.into();
    c.post(&format!("{path}/eviction?fieldValidation=Strict"), unknown)
        .await
        .fails(400, "BadRequest")
        .mentions("strict decoding error: unknown field \"foo\"");
    let evict = async || {
        let bare = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1"}});
        c.post(&format!("{path}/eviction"), bare).await
    };
    evict().await.is(201).has("/kind", "Status").has("/status", "Success");
    c.until_gone(&path).await;
    evict().await.fails(404, "NotFound");
    budgets(&Budgets::new(&c).await).await;
}

/// Three pods that run, of which a budget keeps two.
struct Budgets<'c> {
    c: &'c Cx,
    pods: String,
    budgets: String,
}

impl<'c> Budgets<'c> {
    async fn new(c: &'c Cx) -> Self {
        let namespace = c.namespace_called("kept").await;
        let core = format!("/api/v1/namespaces/{namespace}");
        c.until(&format!("{core}/serviceaccounts/default"), |it| it.code == 200)
            .await;
        let it = Self {
            c,
            pods: format!("{core}/pods"),
            budgets: format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
        };
        for name in ["a", "b", "c", "free"] {
            let of = if name == "free" { "nobody" } else { "kept" };
            let pod = json!({"metadata": {"name": name, "labels": {"of": of, "name": name}, "finalizers": ["ex.io/hold"]},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}});
            c.make(&it.pods, pod).await;
            it.runs(name, "Running", "True").await;
        }
        it
    }

    async fn runs(&self, pod: &str, phase: &str, ready: &str) {
        let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
        self.c
            .merge(&format!("{}/{pod}/status", self.pods), status)
            .await
            .is(200);
    }

    async fn evict(&self, pod: &str, query: &str, options: Value) -> Reply {
        let path = format!("{}/{pod}/eviction{query}", self.pods);
        self.c.post(&path, body(pod, options)).await
    }

    /// Waits until the budget has been looked at; where no controller does that, this stands in for it.
    async fn counted(&self, healthy: u64, allowed: u64) -> Reply {
        let path = format!("{}/kept", self.budgets);
        let budget = self.c.get(&path).await.is(200);
        let generation = budget.at("/metadata/generation").clone();
        if self.c.is_embedded() {
            let status = json!({"observedGeneration": generation, "disruptionsAllowed": allowed, "currentHealthy": healthy,
                "desiredHealthy": 2, "expectedPods": 3, "disruptedPods": null});
            self.c
                .merge(&format!("{path}/status"), json!({"status": status}))
                .await
                .is(200);
        }
        let is_counted = |it: &Reply| {
            let status = &it["status"];
            status["observedGeneration"] == generation
                && status["currentHealthy"] == healthy
                && status["disruptionsAllowed"] == allowed
        };
        self.c.until(&path, is_counted).await.0
    }

    fn held(reply: Reply, why: &str) -> Reply {
        let reply = reply
            .fails(429, "TooManyRequests")
            .says("Cannot evict pod as it would violate the pod's disruption budget.");
        assert_eq!(
            reply.at("/details/causes"),
            &json!([{"reason": "DisruptionBudget", "message": why}])
        );
        reply
    }

    async fn is_there(&self, pod: &str) {
        self.c
            .get(&format!("{}/{pod}", self.pods))
            .await
            .is(200)
            .lacks("/metadata/deletionTimestamp");
    }

    /// That a pod goes, and says why.
    async fn goes(&self, pod: &str) {
        let path = format!("{}/{pod}", self.pods);
        let going = self.c.get(&path).await.is(200);
        assert!(going.at("/metadata/deletionTimestamp").is_string(), "{}", going.came());
        let conditions = going.at("/status/conditions").as_array().cloned().unwrap_or_default();
        let target = conditions.iter().find(|it| it["type"] == "DisruptionTarget");
        let target = target.unwrap_or_else(|| panic!("it does not say why it goes: {}", going.came()));
        assert_eq!(
            (&target["status"], &target["reason"], &target["message"]),
            (
                &json!("True"),
                &json!("EvictionByEvictionAPI"),
                &json!("Eviction API: evicting")
            )
        );
        assert!(target["lastTransitionTime"].is_string(), "{target}");
        let free = json!({"metadata": {"finalizers": null}});
        self.c.merge(&path, free).await;
        self.c.until_gone(&path).await;
    }
}

async fn budgets(it: &Budgets<'_>) {
    let c = it.c;
    let selector = json!({"matchLabels": {"of": "kept"}});
    let made = c
        .make(
            &it.budgets,
            json!({"metadata": {"name": "kept"}, "spec": {"minAvailable": 2, "selector": selector}}),
        )
        .await;
    if c.is_embedded() {
        let refused = Budgets::held(
            it.evict("a", "", json!({})).await,
            "The disruption budget kept is still being processed by the server.",
        );
        assert_eq!(
            (refused.header("retry-after"), refused.at("/details/retryAfterSeconds")),
            ("10".to_owned(), &json!(10))
        );
    }
    let counted = it.counted(3, 1).await;
    for (query, options) in [("?dryRun=All", json!({})), ("", json!({"dryRun": ["All"]}))] {
        it.evict("a", query, options).await.is(201).has("/status", "Success");
        it.is_there("a").await;
    }
    let after = c.get(&format!("{}/kept", it.budgets)).await.is(200);
    assert_eq!(after.revision(), counted.revision(), "{}", after.came());

    // The budget is told before the pod goes.
    let since = made.revision();
    let watched = format!(
        "{}?watch=1&fieldSelector=metadata.name%3Dkept&resourceVersion={since}",
        it.budgets
    );
    let mut watch = c.admin.watch(Ask::get(watched)).await;
    it.evict("a", "", json!({})).await.is(201).has("/status", "Success");
    let told = loop {
        let (_, budget) = watch.next().await;
        if budget["status"]["disruptedPods"]["a"].is_string() {
            break budget["status"].clone();
        }
    };
    assert_eq!(told["disruptionsAllowed"], 0, "{told}");
    let condition = told["conditions"].as_array().into_iter().flatten();
    let condition = condition.clone().find(|it| it["type"] == "DisruptionAllowed").unwrap();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("InsufficientPods"))
    );
    it.goes("a").await;

    it.counted(2, 0).await;
    let refused = Budgets::held(
        it.evict("b", "", json!({})).await,
        "The disruption budget kept needs 2 healthy pods and has 2 currently",
    );
    assert_eq!(refused.header("retry-after"), "");
    refused.lacks("/details/retryAfterSeconds");
    Budgets::held(
        it.evict("b", "?dryRun=All", json!({})).await,
        "The disruption budget kept needs 2 healthy pods and has 2 currently",
    );
    it.is_there("b").await;

    // Who is not well may go when enough others are, or when the budget does not mind.
    it.runs("b", "Running", "False").await;
    it.counted(1, 0).await;
    Budgets::held(
        it.evict("b", "", json!({})).await,
        "The disruption budget kept needs 2 healthy pods and has 1 currently",
    );
    let indifferent = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    c.merge(&format!("{}/kept", it.budgets), indifferent).await.is(200);
    it.evict("b", "", json!({})).await.is(201);
    it.goes("b").await;

    // Which of two budgets would count is not known; a pod that does not run yet, or no more, is nobody's loss.
    let other =
        json!({"metadata": {"name": "other"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"name": "c"}}}});
    c.make(&it.budgets, other).await;
    it.evict("c", "", json!({}))
        .await
        .is(500)
        .lacks("/reason")
        .says("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.");
    it.is_there("c").await;
    it.runs("c", "Pending", "False").await;
    it.evict("c", "", json!({})).await.is(201);
    it.goes("c").await;

    it.evict("free", "", json!({"preconditions": {"uid": "1234"}}))
        .await
        .fails(409, "Conflict")
        .mentions("the UID in the precondition (1234) does not match the UID in record");
    it.is_there("free").await;
    it.evict("free", "", json!({})).await.is(201);
    it.goes("free").await;
}
