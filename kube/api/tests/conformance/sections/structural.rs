//! What a schema has to be like, and the rest of a definition: what is refused, in which words, and what is accepted.

use crate::{
    check::{Check, must},
    cx::{CRDS, Cx, definition, version},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![must("134", "a schema that is not structural is 422", structural)]
}

async fn structural(c: Cx) {
    let group = c.group();
    let with = |schema: Value| {
        let mut it = version("v1", json!({}));
        it["schema"]["openAPIV3Schema"] = schema;
        definition(&group, "things", "Thing", json!({"versions": [it]}))
    };
    let property = |schema: Value| with(json!({"type": "object", "properties": {"a": schema}}));
    let text = json!({"type": "string"});
    let mut wrong = Vec::new();
    let mut refuse = async |crd: Value, message: &str| {
        let reply = c.post(CRDS, crd).await;
        let given = reply["message"].as_str().unwrap_or_default();
        if reply.code != 422 || !given.contains(message) {
            wrong.push(format!("expected {message:?}, came {}", reply.came()));
            c.delete(&format!("{CRDS}/things.{group}")).await;
        }
    };
    refuse(
        with(json!({"properties": {}})),
        "type: Required value: must not be empty at the root",
    )
    .await;
    refuse(
        property(json!({})),
        "properties[a].type: Required value: must not be empty for specified object fields",
    )
    .await;
    refuse(
        property(json!({"type": "array"})),
        "properties[a].items: Required value: must be specified",
    )
    .await;
    refuse(
        property(json!({"type": "object", "properties": {"b": text}, "additionalProperties": text})),
        "additionalProperties and properties are mutual",
    )
    .await;
    refuse(property(json!({"$ref": "#/x"})), "$ref is not supported").await;
    refuse(
        property(json!({"type": "array", "items": text, "uniqueItems": true})),
        "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
    )
    .await;
    refuse(
        property(json!({"type": "foo"})),
        "Unsupported value: \"foo\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
    )
    .await;
    refuse(
        property(json!({"type": "string", "pattern": "("})),
        "pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: ",
    )
    .await;
    refuse(
        property(json!({"type": "string", "default": 5})),
        "properties[a].default: Invalid value: ",
    )
    .await;
    refuse(
        property(json!({"type": "string", "anyOf": [{"type": "string"}]})),
        "anyOf[0].type: Forbidden: must be empty to be structural",
    )
    .await;
    refuse(
        with(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}})),
        "must not specify anything other than name and generateName, but metadata is implicitly specified",
    )
    .await;
    refuse(property(json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object", "properties": {"k": text}}})), "x-kubernetes-list-map-keys").await;
    refuse(
        property(
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": text}}}),
        ),
        "properties[a].items.properties[k].default: Required value",
    )
    .await;
    refuse(
        property(json!({"type": "array", "x-kubernetes-list-type": "bag", "items": text})),
        "Unsupported value: \"bag\": supported values: ",
    )
    .await;
    let mut two = definition(
        &group,
        "things",
        "Thing",
        json!({"versions": [version("v1", json!({})), version("v2", json!({}))]}),
    );
    refuse(two.clone(), "must have exactly one version marked as storage version").await;
    two["spec"]["versions"] = json!([]);
    refuse(two, "spec.versions: ").await;
    let mut named = property(text.clone());
    named["metadata"]["name"] = "foo".into();
    refuse(
        named,
        "metadata.name: Invalid value: \"foo\": must be spec.names.plural+\".\"+spec.group",
    )
    .await;
    let mut scoped = property(text.clone());
    scoped["spec"]["scope"] = "Galaxy".into();
    refuse(
        scoped,
        "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
    )
    .await;
    let mut unpruned = property(text.clone());
    unpruned["spec"]["preserveUnknownFields"] = true.into();
    refuse(unpruned, "spec.preserveUnknownFields: Invalid value: true: ").await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    whole_messages(&c).await;
    let mut old = property(text);
    old["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
    c.post(CRDS, old).await.is(400);
}

/// A definition whose version has members beside its schema.
fn version_with(group: &str, more: Value) -> Value {
    let properties = json!({"s": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object", "properties": {"i": {"type": "integer"}}}});
    let mut it = version("v1", properties);
    it.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    definition(group, "things", "Thing", json!({"versions": [it]}))
}

fn with_schema(group: &str, schema: Value) -> Value {
    // With a status fewer things are allowed at the root.
    version_with(
        group,
        json!({"schema": {"openAPIV3Schema": schema}, "subresources": {}}),
    )
}

/// All that is said of a definition with one thing wrong, and what is accepted, with the warning that comes with it.
async fn whole_messages(c: &Cx) {
    let group = c.group();
    let with = |schema: Value| with_schema(&group, schema);
    let property = |schema: Value| with(json!({"type": "object", "properties": {"a": schema}}));
    let version_with = |more: Value| version_with(&group, more);
    let spec_with = |more: Value| definition(&group, "things", "Thing", more);
    let path = format!("{CRDS}?dryRun=All");
    let mut wrong = Vec::new();
    let refused: Vec<(Value, &str)> = vec![
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            property(json!({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"b": "x", "c": 1}})),
            "spec.validation.openAPIV3Schema.properties[a].default: Invalid value: {\"b\":\"x\",\"c\":1}: must not have unknown fields",
        ),
        (
            property(
                json!({"type": "object", "properties": {"b": {"type": "object", "default": {"x": "y"}, "properties": {"x": {"type": "integer"}}}}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].properties[b].default.x: Invalid value: \"string\": x in body must be of type integer: \"string\"",
        ),
        (
            property(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
            "spec.validation.openAPIV3Schema.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
        (
            property(json!({"type": "string", "x-kubernetes-embedded-resource": true})),
            "[spec.validation.openAPIV3Schema.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields, spec.validation.openAPIV3Schema.properties[a].type: Invalid value: \"string\": must be object if x-kubernetes-embedded-resource is true]",
        ),
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
        ),
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"], "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties",
        ),
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "object"}}, "required": ["k"]}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].items.properties[k].type: Invalid value: \"object\": must be a scalar type if parent array's x-kubernetes-list-type is map",
        ),
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string", "nullable": true}}, "required": ["k"]}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
        ),
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\"]: must not contain duplicate entries",
        ),
        (
            property(
                json!({"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        (
            property(json!({"type": "string", "x-kubernetes-list-type": "set"})),
            "spec.validation.openAPIV3Schema.properties[a].type: Invalid value: \"string\": must be array if x-kubernetes-list-type is specified",
        ),
        (
            property(json!({"type": "object", "x-kubernetes-map-type": "bag"})),
            "spec.validation.openAPIV3Schema.properties[a].x-kubernetes-map-type: Unsupported value: \"bag\": supported values: \"atomic\", \"granular\"",
        ),
        (
            property(json!({"type": "string", "x-kubernetes-map-type": "atomic"})),
            "spec.validation.openAPIV3Schema.properties[a].type: Invalid value: \"string\": must be object if x-kubernetes-map-type is specified",
        ),
        (
            property(json!({"type": "array", "items": [{"type": "string"}]})),
            "spec.validation.openAPIV3Schema.properties[a].items: Forbidden: items must be a schema object and not an array",
        ),
        (
            property(json!({"type": "array", "items": {"type": "string"}, "additionalItems": true})),
            "spec.validation.openAPIV3Schema.properties[a].additionalItems: Forbidden: additionalItems is not supported",
        ),
        (
            property(
                json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            property(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
            "spec.validation.openAPIV3Schema.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            with(json!({"type": "object", "nullable": true})),
            "spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            with(json!({"type": "array", "items": {"type": "string"}})),
            "spec.validation.openAPIV3Schema.type: Invalid value: \"array\": must be object at the root",
        ),
        (
            property(json!({"type": "object", "definitions": {"a": {"type": "string"}}})),
            "spec.validation.openAPIV3Schema.properties[a].definitions: Forbidden: definitions is not supported",
        ),
        (
            property(json!({"type": "object", "dependencies": {"a": ["b"]}})),
            "spec.validation.openAPIV3Schema.properties[a].dependencies: Forbidden: dependencies is not supported",
        ),
        (
            property(json!({"type": "object", "patternProperties": {"a": {"type": "string"}}})),
            "spec.validation.openAPIV3Schema.properties[a].patternProperties: Forbidden: patternProperties is not supported",
        ),
        (
            property(json!({"type": "string", "id": "x"})),
            "spec.validation.openAPIV3Schema.properties[a].id: Forbidden: id is not supported",
        ),
        (
            property(json!({"type": "string", "allOf": [{"default": "x"}]})),
            "spec.validation.openAPIV3Schema.properties[a].allOf[0].default: Forbidden: must be undefined to be structural",
        ),
        (
            property(json!({"type": "string", "allOf": [{"nullable": true}]})),
            "spec.validation.openAPIV3Schema.properties[a].allOf[0].nullable: Forbidden: must be false to be structural",
        ),
        (
            property(json!({"type": "string", "allOf": [{"description": "d"}]})),
            "spec.validation.openAPIV3Schema.properties[a].allOf[0].description: Forbidden: must be empty to be structural",
        ),
        (
            property(json!({"type": "string", "allOf": [{"additionalProperties": {"type": "string"}}]})),
            "spec.validation.openAPIV3Schema.properties[a].allOf[0].additionalProperties: Forbidden: must be undefined to be structural",
        ),
        (
            property(json!({"type": "string", "allOf": [{"x-kubernetes-preserve-unknown-fields": true}]})),
            "spec.validation.openAPIV3Schema.properties[a].allOf[0].x-kubernetes-preserve-unknown-fields: Forbidden: must be false to be structural",
        ),
        (
            property(json!({"type": "string", "allOf": [{"title": "x"}]})),
            "spec.validation.openAPIV3Schema.properties[a].allOf[0].title: Forbidden: must be empty to be structural",
        ),
        (
            version_with(
                json!({"subresources": {"status": {}, "scale": {"specReplicasPath": "spec.replicas", "statusReplicasPath": ".status.r"}}}),
            ),
            "spec.subresources.scale.specReplicasPath: Invalid value: \"spec.replicas\": must be a simple json path starting with .",
        ),
        (
            version_with(
                json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".metadata.x", "statusReplicasPath": ".status.r"}}}),
            ),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".metadata.x\": should be a json path under .spec",
        ),
        (
            version_with(
                json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec", "statusReplicasPath": ".status.r"}}}),
            ),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".spec\": should be a json path under .spec",
        ),
        (
            version_with(
                json!({"subresources": {"status": {}, "scale": {"specReplicasPath": "", "statusReplicasPath": ".status.r"}}}),
            ),
            "spec.subresources.scale.specReplicasPath: Required value",
        ),
        (
            version_with(
                json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".spec.r"}}}),
            ),
            "spec.subresources.scale.statusReplicasPath: Invalid value: \".spec.r\": should be a json path under .status",
        ),
        (
            version_with(
                json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r", "labelSelectorPath": ".metadata.labels"}}}),
            ),
            "spec.subresources.scale.labelSelectorPath: Invalid value: \".metadata.labels\": should be a json path under either .spec or .status",
        ),
        (
            version_with(json!({"additionalPrinterColumns": [{"name": "A", "type": "foo", "jsonPath": ".spec.s"}]})),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"foo\": must be one of boolean,date,integer,number,string",
        ),
        (
            version_with(json!({"additionalPrinterColumns": [{"name": "A", "type": "", "jsonPath": ".spec.s"}]})),
            "spec.additionalPrinterColumns[0].type: Required value: must be one of boolean,date,integer,number,string",
        ),
        (
            version_with(json!({"additionalPrinterColumns": [{"name": "", "type": "string", "jsonPath": ".spec.s"}]})),
            "spec.additionalPrinterColumns[0].name: Required value",
        ),
        (
            version_with(json!({"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "spec.s"}]})),
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec.s\": must be a simple json path starting with .",
        ),
        (
            version_with(json!({"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ""}]})),
            "spec.additionalPrinterColumns[0].JSONPath: Required value",
        ),
        (
            version_with(
                json!({"additionalPrinterColumns": [{"name": "A", "type": "integer", "jsonPath": ".spec.s", "format": "foo"}]}),
            ),
            "spec.additionalPrinterColumns[0].format: Invalid value: \"foo\": must be one of byte,date,date-time,double,float,int32,int64,password",
        ),
        (
            version_with(json!({"selectableFields": [{"jsonPath": ".spec.o"}]})),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.o\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
        ),
        (
            version_with(json!({"selectableFields": [{"jsonPath": ".spec.l"}]})),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.l\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
        ),
        (
            version_with(json!({"selectableFields": [{"jsonPath": ".spec.none"}]})),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.none\": is an invalid path: does not refer to a valid field",
        ),
        (
            version_with(json!({"selectableFields": [{"jsonPath": ".metadata.name"}]})),
            "spec.selectableFields[0].jsonPath: Invalid value: \".metadata.name\": is an invalid path: does not refer to a valid field",
        ),
        (
            version_with(json!({"selectableFields": [{"jsonPath": ""}]})),
            "spec.selectableFields[0].jsonPath: Required value",
        ),
        (
            version_with(json!({"selectableFields": [{"jsonPath": ".spec.s"}, {"jsonPath": ".spec.s"}]})),
            "spec.selectableFields[1].jsonPath: Duplicate value: \".spec.s\"",
        ),
        (
            spec_with(json!({"conversion": {"strategy": "Webhook"}})),
            "[spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook, spec.conversion.conversionReviewVersions: Required value]",
        ),
        (
            spec_with(json!({"conversion": {"strategy": "Webhook", "webhook": {}}})),
            "[spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook, spec.conversion.conversionReviewVersions: Required value]",
        ),
        (
            spec_with(
                json!({"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {}}}}),
            ),
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ),
        (
            spec_with(
                json!({"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y", "service": {"namespace": "a", "name": "b"}}}}}),
            ),
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ),
        (
            spec_with(
                json!({"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "http://x/y"}}}}),
            ),
            "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            spec_with(
                json!({"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"], "clientConfig": {"url": "https://x/y"}}}}),
            ),
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
        ),
        (
            spec_with(
                json!({"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y"}}}}),
            ),
            "[spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook, spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook]",
        ),
        (
            spec_with(json!({"conversion": {"strategy": "Foo"}})),
            "spec.conversion.strategy: Unsupported value: \"Foo\": supported values: \"None\", \"Webhook\"",
        ),
        (
            version_with(json!({"deprecationWarning": "x"})),
            "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions",
        ),
        (
            spec_with(json!({"names": {"plural": "things", "kind": "Thing", "listKind": "Thing"}})),
            "spec.names.listKind: Invalid value: \"Thing\": kind and listKind may not be the same",
        ),
        (
            spec_with(json!({"names": {"plural": "things", "kind": "Thing", "shortNames": ["T_"]}})),
            "spec.names.shortNames[0]: Invalid value: \"T_\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ),
        (
            spec_with(json!({"names": {"plural": "things", "kind": "Thing", "categories": ["A b"]}})),
            "spec.names.categories[0]: Invalid value: \"A b\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ),
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}}),
            ),
            "spec.validation.openAPIV3Schema.properties[a].x-kubernetes-list-type: Invalid value: \"set\": must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        (
            with(
                json!({"type": "object", "properties": {"b": {"type": "string"}}, "anyOf": [{"properties": {"c": {"minLength": 1}}}]}),
            ),
            "spec.validation.openAPIV3Schema.properties[c]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[c]",
        ),
        (
            with(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            "spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            with(json!({"type": "object", "properties": {"kind": {"type": "integer"}}})),
            "spec.validation.openAPIV3Schema.properties[kind].type: Invalid value: \"integer\": must be string",
        ),
        (
            with(json!({"type": "object", "properties": {"metadata": {"type": "string"}}})),
            "spec.validation.openAPIV3Schema.properties[metadata].type: Invalid value: \"string\": must be object",
        ),
        (
            property(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true})),
            "spec.validation.openAPIV3Schema.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
        ),
        (
            spec_with(
                json!({"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://u:p@/y?a=b#c"}}}}),
            ),
            "[spec.conversion.webhookClientConfig.url: Invalid value: \"\": host must be specified; desired format: https://host[/path], spec.conversion.webhookClientConfig.url: Invalid value: \"u:p\": user information is not permitted in the URL, spec.conversion.webhookClientConfig.url: Invalid value: \"c\": fragments are not permitted in the URL, spec.conversion.webhookClientConfig.url: Invalid value: \"a=b\": query parameters are not permitted in the URL]",
        ),
    ];
    for (crd, message) in refused {
        let reply = c.post(&path, crd).await;
        let said = reply["message"].as_str().unwrap_or_default();
        let said = said.split_once(" is invalid: ").map_or(said, |it| it.1);
        if reply.code != 422 || said != message {
            wrong.push(format!("expected 422 {message}\n    came {} {said}", reply.code));
        }
    }
    for (schema, said) in [
        (
            json!({"type": "object", "anyOf": [{"minProperties": 1}]}),
            "fields are allowed at the root of the schema if the status subresource is enabled",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ),
    ] {
        let crd = version_with(json!({"schema": {"openAPIV3Schema": schema}}));
        let reply = c.post(&path, crd).await;
        if reply.code != 422 || !reply["message"].to_string().replace('\\', "").contains(said) {
            wrong.push(format!("expected 422 {said}\n    came {}", reply.came()));
        }
    }
    let accepted: Vec<(Value, &str)> = vec![
        (
            property(
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "properties": {"k": {"type": "string"}}, "x-kubernetes-map-type": "atomic"}}),
            ),
            "",
        ),
        (
            property(
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            ),
            "",
        ),
        (property(json!({"type":"string","nullable":true,"default":null})), ""),
        (
            property(json!({"type": "string", "format": "foo"})),
            "unrecognized format \"foo\"",
        ),
        (
            property(json!({"type": "string", "x-foo": 1})),
            "unknown field \"spec.versions[0].schema.openAPIV3Schema.properties.a.x-foo\"",
        ),
        (property(json!({"type": "object", "additionalProperties": false})), ""),
        (
            with(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
            "",
        ),
        (
            property(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
            "",
        ),
        (
            property(json!({"type": "object", "required": ["z"], "properties": {"b": {"type": "string"}}})),
            "",
        ),
        (version_with(json!({"served": false})), ""),
        (
            version_with(json!({"selectableFields": [{"jsonPath": ".spec.o.i"}]})),
            "",
        ),
        (
            version_with(
                json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.o.i", "statusReplicasPath": ".status.r"}}}),
            ),
            "",
        ),
        (
            property(json!({"type": "string", "x-kubernetes-int-or-string": true})),
            "",
        ),
        (
            property(
                json!({"type": "object", "properties": {"b": {"type": "string"}}, "anyOf": [{"properties": {"c": {"minLength": 1}}}]}),
            ),
            "",
        ),
    ];
    for (crd, warning) in accepted {
        let schema = crd["spec"]["versions"][0].to_string();
        let reply = c.post(&path, crd).await;
        let warned = reply.header("warning").replace("\\\"", "\"");
        let is_so = match warning {
            "" => warned.is_empty(),
            part => warned.contains(part),
        };
        if reply.code != 201 || !is_so {
            wrong.push(format!(
                "expected 201 with {warning:?}\n    came {} {warned:?} {} for {schema}",
                reply.code, reply["message"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
