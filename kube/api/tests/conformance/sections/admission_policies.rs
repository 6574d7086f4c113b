//! ValidatingAdmissionPolicy and its bindings.
//!
//! Many policies are looked at in one namespace: each judges the objects with its own label, so that a real server,
//! which takes up new policies once a second, is waited for once.

use crate::{
    check::{Check, should},
    client::{Ask, Reply},
    cx::{Cx, Kind, config_map},
};
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

pub fn checks() -> Vec<Check> {
    vec![should(
        "165",
        "a ValidatingAdmissionPolicy denies or warns as its binding says; variables, parameters, messages, reasons",
        policies,
    )]
}

async fn policies(c: Cx) {
    let (space, limits) = (Space::new(&c).await, limits(&c).await);
    tokio::join!(
        unbound(&space),
        denials(&space),
        expressions(&space),
        actions(&space),
        narrowing(&space),
        parameters(&space, &limits),
        conditions(&space, &limits),
        refusals(&c)
    );
}

/// The namespace, and the collection of ConfigMaps in it.
struct Space {
    c: Cx,
    namespace: String,
    maps: String,
}

/// A validation.
fn validation(text: &str, more: Value) -> Value {
    let mut it = json!({"expression": text});
    it.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"validations": [it]})
}

fn policy(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
}

fn binding(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec})
}

impl Space {
    async fn new(c: &Cx) -> Self {
        let namespace = c.namespace().await;
        Self {
            maps: format!("/api/v1/namespaces/{namespace}/configmaps"),
            namespace,
            c: c.clone(),
        }
    }

    /// A ConfigMap that the policies of a case judge.
    fn map(&self, case: &str, name: &str) -> Value {
        let mut object = config_map(name, json!({"a": "b"}));
        object["metadata"]["labels"] = json!({"case": case});
        object
    }

    async fn create(&self, case: &str, name: &str) -> Reply {
        self.c.post(&self.maps, self.map(case, name)).await
    }

    /// The spec of a policy of this case, to which `spec` adds. Its last validation refuses what is called `probe`.
    fn spec(&self, case: &str, spec: Value) -> Value {
        let mut whole = json!({
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                "objectSelector": {"matchLabels": {"case": case}},
                "resourceRules": [{"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            },
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let probe = json!({"expression": "object == null || object.metadata.name != 'probe'"});
        whole["validations"].as_array_mut().unwrap().push(probe);
        whole
    }

    /// Makes a policy and its binding.
    async fn bind(&self, case: &str, spec: Value, bound: Value) {
        let name = self.c.name(case);
        self.c.make(POLICIES, policy(&name, self.spec(case, spec))).await;
        let mut whole = json!({"policyName": name, "validationActions": ["Deny"]});
        whole
            .as_object_mut()
            .unwrap()
            .extend(bound.as_object().unwrap().clone());
        self.c.make(BINDINGS, binding(&name, whole)).await;
    }

    /// Returns when a case's policy is in force.
    async fn in_force(&self, case: &str) {
        let ask = Ask::post(format!("{}?dryRun=All", self.maps), &self.map(case, "probe"));
        self.c.until_asked(&self.c.admin, &ask, |it| it.code >= 400).await;
    }
}

async fn unbound(it: &Space) {
    let Space { c, .. } = it;
    let name = c.name("unbound");
    let spec = it.spec("unbound", validation("false", json!({})));
    let made = c.make(POLICIES, policy(&name, spec)).await;
    let path = format!("{POLICIES}/{name}");
    made.has("/spec/failurePolicy", "Fail")
        .has("/spec/matchConstraints/matchPolicy", "Equivalent")
        .has("/spec/matchConstraints/resourceRules/0/scope", "*");
    c.until(&path, |it| {
        it.at("/status/observedGeneration") == 1 && it.at("/status/typeChecking").is_object()
    })
    .await;
    it.create("unbound", "v").await.is(201);
    let bound = json!({"policyName": name, "validationActions": ["Deny"]});
    c.make(BINDINGS, binding(&name, bound)).await;
    it.in_force("unbound").await;
    it.create("unbound", "w").await.is(422);
    c.delete(&format!("{BINDINGS}/{name}")).await.is(200);
    let ask = Ask::post(it.maps.as_str(), &it.map("unbound", "w"));
    c.until_asked(&c.admin, &ask, |it| it.code == 201).await;
}

async fn denials(it: &Space) {
    let cases = [
        (
            validation("object.data.a == 'x'", json!({})),
            422,
            "Invalid",
            "failed expression: object.data.a == 'x'",
        ),
        (
            validation("false", json!({"message": "bad key in v"})),
            422,
            "Invalid",
            "bad key in v",
        ),
        (
            validation(
                "false",
                json!({"message": "m", "messageExpression": "'name is ' + object.metadata.name"}),
            ),
            422,
            "Invalid",
            "name is v0",
        ),
        (
            validation(
                "false",
                json!({"message": "m", "messageExpression": "string(object.nope)"}),
            ),
            422,
            "Invalid",
            "m",
        ),
        (
            validation("false", json!({"reason": "Forbidden"})),
            403,
            "Forbidden",
            "failed expression: false",
        ),
        (
            validation("false", json!({"reason": "RequestEntityTooLarge"})),
            413,
            "RequestEntityTooLarge",
            "failed expression: false",
        ),
        (
            validation("object.nope.x == 1", json!({})),
            422,
            "Invalid",
            "expression 'object.nope.x == 1' resulted in error: no such key: nope",
        ),
    ];
    for (at, (spec, ..)) in cases.iter().enumerate() {
        it.bind(&format!("denied-{at}"), spec.clone(), json!({})).await;
    }
    let mut ignored = validation("object.nope.x == 1", json!({}));
    ignored["failurePolicy"] = "Ignore".into();
    it.bind("ignored", ignored, json!({})).await;
    for (at, (_, code, reason, text)) in cases.into_iter().enumerate() {
        let case = format!("denied-{at}");
        it.in_force(&case).await;
        let name = it.c.name(&case);
        let text = text.replace("v0", "v");
        let message = format!("ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {text}");
        it.create(&case, "v")
            .await
            .fails(code, reason)
            .says(&format!("configmaps \"v\" is forbidden: {message}"))
            .has("/details/causes", json!([{"message": message}]));
    }
    it.in_force("ignored").await;
    it.create("ignored", "ignored").await.is(201);
}

async fn expressions(it: &Space) {
    let chain: Vec<Value> = (0..500)
        .map(|number: usize| {
            let expression = match number.checked_sub(1) {
                None => "object.data.a".to_owned(),
                Some(before) => format!("variables.v{before}"),
            };
            json!({"name": format!("v{number}"), "expression": expression})
        })
        .collect();
    let few = json!([
        {"name": "one", "expression": "object.data.a"},
        {"name": "two", "expression": "variables.one + variables.one"},
        {"name": "broken", "expression": "object.nope"},
    ]);
    let here = format!("namespaceObject.metadata.name == '{}'", it.namespace);
    let cases = [
        ("variables.two == 'bb' && variables.one == 'b'", 201),
        (&here, 201),
        (
            "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == request.namespace",
            201,
        ),
        ("request.userInfo.groups.exists(it, it == 'system:authenticated')", 201),
        ("oldObject == null && request.operation == 'CREATE'", 201),
        ("authorizer.requestResource.check('delete').allowed()", 201),
        ("has(object.data) && object.data.all(k, k.matches('^[a-z]+$'))", 201),
        ("true || variables.broken", 201),
        ("variables.broken == 1", 422),
        ("variables.v499 == 'b'", 201),
    ];
    for (at, (expression, _)) in cases.iter().enumerate() {
        let mut spec = validation(expression, json!({}));
        let is_chain = expression.starts_with("variables.v");
        spec["variables"] = if is_chain { json!(chain) } else { few.clone() };
        it.bind(&format!("sees-{at}"), spec, json!({})).await;
    }
    for (at, (expression, code)) in cases.into_iter().enumerate() {
        let case = format!("sees-{at}");
        it.in_force(&case).await;
        let reply = it.create(&case, &case).await;
        assert_eq!(reply.code, code, "{expression}: {}", reply.came());
        if code == 422 {
            reply.mentions("composited variable \"broken\" fails to evaluate");
        }
    }
}

async fn actions(it: &Space) {
    let Space { c, .. } = it;
    let spec = validation("false", json!({"message": "hm"}));
    // Both bindings come to a server in their order: when the second is heard of, the first is known.
    let name = c.name("actions");
    c.make(POLICIES, policy(&name, it.spec("actions", spec.clone()))).await;
    let bound = |action: &str| json!({"policyName": name, "validationActions": [action]});
    c.make(BINDINGS, binding(&c.name("audit"), bound("Audit"))).await;
    c.make(BINDINGS, binding(&c.name("warn"), bound("Warn"))).await;
    let ask = Ask::post(format!("{}?dryRun=All", it.maps), &it.map("actions", "actions"));
    let (reply, _) = c
        .until_asked(&c.admin, &ask, |it| !it.header("warning").is_empty())
        .await;
    let reply = reply.is(201);
    let warn = c.name("warn");
    let said = format!("299 - \"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{warn}': hm\"");
    let given: Vec<_> = reply.headers.get_all("warning").iter().collect();
    assert_eq!(given, [said.as_str()]);
}

async fn narrowing(it: &Space) {
    let Space { c, maps, .. } = it;
    let within = json!({"matchResources": {"objectSelector": {"matchLabels": {"x": "y"}}}});
    it.bind("within", validation("false", json!({})), within).await;
    it.bind(
        "kept",
        validation("request.operation != 'DELETE'", json!({})),
        json!({}),
    )
    .await;
    let mut conditional = validation("request.operation != 'DELETE'", json!({}));
    conditional["matchConditions"] = json!([{"name": "c", "expression": "request.operation != 'DELETE'"}]);
    it.bind("let-go", conditional, json!({})).await;
    let mut labelled = it.map("within", "labelled");
    labelled["metadata"]["labels"]["x"] = "y".into();
    let ask = Ask::post(format!("{maps}?dryRun=All"), &labelled);
    c.until_asked(&c.admin, &ask, |it| it.code == 422).await;
    it.create("within", "within").await.is(201);
    it.in_force("kept").await;
    it.create("kept", "kept").await.is(201);
    c.delete(&format!("{maps}/kept")).await.is(422);
    it.in_force("let-go").await;
    it.create("let-go", "let-go").await.is(201);
    c.delete(&format!("{maps}/let-go")).await.is(200);
    c.delete(&format!("{BINDINGS}/{}", c.name("kept"))).await.is(200);
}

/// The kind of the parameters: one of the check's own, because a real server does not watch a kind of its own again
/// that policies have used and left.
async fn limits(c: &Cx) -> Kind {
    let text = json!({"type": "string"});
    c.define_simple("limits", "Limit", json!({"allowed": text, "judges": text}))
        .await
}

async fn parameters(it: &Space, limits: &Kind) {
    let Space { c, maps, .. } = it;
    let spec = || {
        let mut spec = validation("object.data.a in params.spec.allowed.split(',')", json!({}));
        spec["paramKind"] = json!({"apiVersion": limits.api_version, "kind": limits.kind});
        spec
    };
    let namespace = c.name("of-limits");
    let named = |name: &str, action: &str| json!({"paramRef": {"name": name, "namespace": namespace, "parameterNotFoundAction": action}});
    let mut params = limits.object("params", json!({"allowed": "b,c"}));
    params["metadata"]["labels"] = json!({"for": "parameters"});
    c.make(&limits.path, params).await;
    it.bind("lacking", spec(), named("nobody", "Deny")).await;
    it.bind("allowing", spec(), named("nobody", "Allow")).await;
    it.bind("named", spec(), named("params", "Deny")).await;
    let chosen = json!({"paramRef": {
        "selector": {"matchLabels": {"for": "parameters"}}, "namespace": namespace, "parameterNotFoundAction": "Deny",
    }});
    it.bind("chosen", spec(), chosen).await;
    // A real server takes up policies once a second, and may not know their kind for half a minute.
    let dry = format!("{maps}?dryRun=All");
    let said = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let ask = Ask::post(dry.as_str(), &it.map("lacking", "lacking"));
    let (reply, _) = c.until_asked(&c.admin, &ask, |it| it.text().contains(said)).await;
    reply.fails(422, "Invalid");
    for case in ["named", "chosen"] {
        let mut other = it.map(case, &format!("{case}-other"));
        other["data"]["a"] = "z".into();
        let ask = Ask::post(dry.as_str(), &other);
        let (reply, _) = c
            .until_asked(&c.admin, &ask, |it| it.text().contains("failed expression"))
            .await;
        reply.fails(422, "Invalid");
        it.create(case, case).await.is(201);
    }
    // It was made before the last, which is in force.
    it.create("allowing", "allowing").await.is(201);
}

/// Conditions of a policy know its parameters, and neither the namespace nor its variables.
async fn conditions(it: &Space, limits: &Kind) {
    let Space { c, maps, .. } = it;
    c.make(&limits.path, limits.object("rule", json!({"judges": "judged"})))
        .await;
    let spec = json!({
        "paramKind": {"apiVersion": limits.api_version, "kind": limits.kind},
        "matchConditions": [
            {"name": "asked", "expression": "params.spec.judges == object.metadata.name"},
        ],
        "validations": [{"expression": "false"}],
    });
    let bound =
        json!({"paramRef": {"name": "rule", "namespace": c.name("of-limits"), "parameterNotFoundAction": "Deny"}});
    it.bind("conditions", spec.clone(), bound).await;
    let ask = Ask::post(format!("{maps}?dryRun=All"), &it.map("conditions", "judged"));
    let (reply, _) = c
        .until_asked(&c.admin, &ask, |it| it.text().contains("failed expression"))
        .await;
    reply.fails(422, "Invalid");
    it.create("conditions", "unjudged").await.is(201);
    let mut empty = validation("true", json!({}));
    empty["matchConditions"] = json!([{"name": "here", "expression": "namespaceObject.metadata.name == 'x'"}]);
    it.bind("empty", empty, json!({})).await;
    let ask = Ask::post(format!("{maps}?dryRun=All"), &it.map("empty", "empty"));
    let (reply, _) = c.until_asked(&c.admin, &ask, |it| it.code != 201).await;
    reply
        .fails(422, "Invalid")
        .mentions("expression 'namespaceObject.metadata.name == 'x'' resulted in error: no such key: metadata");
    let mut wrong = spec;
    wrong["matchConditions"][0]["expression"] = json!("variables.x");
    let wrong = policy(&c.name("wrong"), it.spec("wrong", wrong));
    c.post(POLICIES, wrong).await.fails(422, "Invalid");
}

async fn refusals(c: &Cx) {
    let list = |text: &str| validation(text, json!({}));
    for (spec, said) in [
        (
            list("1"),
            "spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
        ),
        (
            list("object."),
            "spec.validations[0].expression: Invalid value: \"object.\": compilation failed: ERROR: <input>:1:",
        ),
        (list("nobody"), "undeclared reference to 'nobody'"),
        (list(""), "spec.validations[0].expression: Required value"),
        (
            validation("true", json!({"reason": "Bad"})),
            "spec.validations[0].reason: Unsupported value: \"Bad\"",
        ),
        (
            validation("true", json!({"messageExpression": "authorizer == null ? 'a' : 'b'"})),
            "undeclared reference to 'authorizer'",
        ),
        (
            validation("true", json!({"message": "two\nlines"})),
            "spec.validations[0].message: Invalid value: \"two\\nlines\": must not contain line breaks",
        ),
        (
            json!({"validations": [{"expression": "true"}], "matchConditions": [{"name": "a b", "expression": "true"}]}),
            "spec.matchConditions[0].name: Invalid value: \"a b\"",
        ),
        (
            json!({"auditAnnotations": (0..21).map(|it| json!({"key": format!("k{it}"), "valueExpression": "'x'"}))
                .collect::<Vec<_>>()}),
            "[{\"Key\":\"k0\",\"ValueExpression\":\"'x'\"},",
        ),
        (
            json!({"auditAnnotations": (0..21).map(|it| json!({"key": format!("k{it}"), "valueExpression": "'x'"}))
                .collect::<Vec<_>>()}),
            "}]: must not have more than 20 auditAnnotations",
        ),
        (
            json!({"auditAnnotations": [{"key": "a b", "valueExpression": "'x'"}]}),
            "spec.auditAnnotations[0].key: Invalid value: ",
        ),
        (
            json!({"auditAnnotations": [{"key": "a", "valueExpression": "1"}]}),
            "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of",
        ),
        (
            validation("true", json!({"messageExpression": "object.data['a']"})),
            "must evaluate to string but got dyn",
        ),
        (list("object.data.a"), "must evaluate to bool"),
        // Only of a policy with a paramKind, and only what is declared, before it is used.
        (list("params == null"), "undeclared reference to 'params'"),
        (list("variables.a == 1"), "undeclared reference to 'variables'"),
        (
            json!({"validations": [{"expression": "variables.b == 1"}], "variables": [{"name": "a", "expression": "1"}]}),
            "spec.validations[0].expression: Invalid value: \"variables.b == 1\": compilation failed: ERROR: <input>:1:10: undefined field 'b'",
        ),
        (
            json!({
                "validations": [{"expression": "variables.b == 1"}],
                "variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}],
            }),
            "spec.variables[0].expression: Invalid value: \"variables.b\"",
        ),
        (
            validation("true", json!({"messageExpression": "1"})),
            "must evaluate to string but got int",
        ),
        (
            json!({}),
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
        ),
        (
            json!({"validations": [{"expression": "true"}], "matchConstraints": null}),
            "spec.matchConstraints: Required value",
        ),
        (
            json!({"validations": [{"expression": "true"}], "variables": [{"name": "1x", "expression": "1"}]}),
            "must be a valid CEL identifier",
        ),
        (
            json!({"validations": [{"expression": "true"}], "variables": [{"name": "namespace", "expression": "1"}]}),
            "spec.variables[0].name: Invalid value: \"namespace\": must be a valid CEL identifier",
        ),
    ] {
        let mut whole = json!({
            "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let whole = policy(&c.name("refused"), whole);
        c.post(&format!("{POLICIES}?dryRun=All"), whole)
            .await
            .fails(422, "Invalid")
            .mentions(said);
    }
    for (more, said) in [
        (
            json!({"validationActions": ["Deny", "Warn"]}),
            "must not contain both Deny and Warn",
        ),
        (
            json!({"validationActions": []}),
            "spec.validationActions: Required value",
        ),
        (json!({"policyName": ""}), "spec.policyName: Required value"),
        (
            json!({"paramRef": {"name": "a"}}),
            "spec.paramRef.parameterNotFoundAction: Required value",
        ),
    ] {
        let mut whole = json!({"policyName": "p1", "validationActions": ["Deny"]});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let whole = binding(&c.name("refused"), whole);
        c.post(&format!("{BINDINGS}?dryRun=All"), whole)
            .await
            .fails(422, "Invalid")
            .mentions(said);
    }
}
