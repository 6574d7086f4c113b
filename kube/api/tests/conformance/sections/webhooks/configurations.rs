//! What a configuration has to say.

use super::{MUTATING, VALIDATING, configuration, configurations, webhook};
use crate::cx::Cx;
use serde_json::{Value, json};

fn at(role: &str) -> String {
    format!("{}?dryRun=All", configurations(role))
}

pub async fn defaults(c: &Cx) {
    let service = json!({"service": {"namespace": "default", "name": "hook"}});
    let hooks = [webhook("test", service, json!({}))];
    for (role, reinvocation) in [(VALIDATING, Value::Null), (MUTATING, json!("Never"))] {
        let made = c
            .post(&at(role), configuration(role, &c.name("defaults"), &hooks))
            .await
            .is(201);
        let hook = &made["webhooks"][0];
        for (pointer, wanted) in [
            ("/failurePolicy", json!("Fail")),
            ("/matchPolicy", json!("Equivalent")),
            ("/timeoutSeconds", json!(10)),
            ("/rules/0/scope", json!("*")),
            ("/namespaceSelector", json!({})),
            ("/objectSelector", json!({})),
            ("/clientConfig/service/port", json!(443)),
            ("/reinvocationPolicy", reinvocation),
        ] {
            assert_eq!(
                hook.pointer(pointer).unwrap_or(&Value::Null),
                &wanted,
                "{role}: {pointer}"
            );
        }
    }
}

/// What says too little, or what makes no sense.
pub async fn refusals(c: &Cx) {
    let url = || json!({"url": "https://127.0.0.1:1/x"});
    let expression = |text: &str| json!({"matchConditions": [{"name": "c", "expression": text}]});
    let rule = |key: &str, value: Value| {
        let mut rule =
            json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        rule[key] = value;
        json!({"rules": [rule]})
    };
    for (config, more, said) in [
        (
            url(),
            json!({"name": "short"}),
            "webhooks[0].name: Invalid value: \"short\": should be a domain with at least three segments separated by dots",
        ),
        (url(), json!({"name": ""}), "webhooks[0].name: Required value"),
        (
            url(),
            json!({"sideEffects": null}),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            url(),
            json!({"sideEffects": "Some"}),
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ),
        (
            url(),
            json!({"admissionReviewVersions": []}),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            url(),
            json!({"admissionReviewVersions": ["v2"]}),
            "must include at least one of v1, v1beta1",
        ),
        (
            url(),
            json!({"timeoutSeconds": 31}),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            url(),
            json!({"failurePolicy": "Maybe"}),
            "webhooks[0].failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            url(),
            rule("operations", json!(["READ"])),
            "webhooks[0].rules[0].operations[0]: Unsupported value: \"READ\"",
        ),
        (
            url(),
            rule("operations", json!(["*", "CREATE"])),
            "if '*' is present, must not specify other operations",
        ),
        (
            url(),
            rule("apiGroups", json!([])),
            "webhooks[0].rules[0].apiGroups: Required value",
        ),
        (
            url(),
            rule("scope", json!("All")),
            "webhooks[0].rules[0].scope: Unsupported value: \"All\"",
        ),
        (
            json!({}),
            json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            json!({"url": "http://a/b"}),
            json!({}),
            "'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            json!({"url": "https://u:p@a/b"}),
            json!({}),
            "user information is not permitted in the URL",
        ),
        (
            json!({"url": "https://a/b?c=d"}),
            json!({}),
            "query parameters are not permitted in the URL",
        ),
        (
            json!({"service": {"name": "a", "namespace": ""}}),
            json!({}),
            // A real server means the namespace and says `name`.
            "webhooks[0].clientConfig.service.name",
        ),
        (
            json!({"service": {"name": "a", "namespace": "b", "path": "c"}}),
            json!({}),
            "must start with a '/'",
        ),
        (
            json!({"service": {"name": "a", "namespace": "b", "path": "/c//d"}}),
            json!({}),
            "segment[1] may not be empty",
        ),
        (
            json!({"service": {"name": "a", "namespace": "b", "path": "/C"}}),
            json!({}),
            "segment[0]: a lowercase RFC 1123 subdomain must consist of",
        ),
        (
            json!({"service": {"name": "a", "namespace": "b", "port": 0}}),
            json!({}),
            "port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            url(),
            expression("object."),
            "webhooks[0].matchConditions[0].expression: Invalid value: \"object.\": compilation failed: ERROR: <input>:1:",
        ),
        (
            url(),
            expression("nobody.x"),
            "undeclared reference to 'nobody' (in container '')",
        ),
        (url(), expression("1"), "must evaluate to bool but got int"),
        (url(), expression("Thing{a: 1} == 1"), "undeclared reference to 'Thing'"),
    ] {
        let whole = configuration(VALIDATING, &c.name("refused"), &[webhook("test", config, more)]);
        c.post(&at(VALIDATING), whole)
            .await
            .fails(422, "Invalid")
            .mentions(said);
    }
    let twice = [webhook("test", url(), json!({})), webhook("test", url(), json!({}))];
    c.post(&at(VALIDATING), configuration(VALIDATING, &c.name("refused"), &twice))
        .await
        .fails(422, "Invalid")
        .mentions("webhooks[1].name: Duplicate value");
}
