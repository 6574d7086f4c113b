use super::*;

fn crd(schema: Value) -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    default_crd(&mut crd);
    crd
}

fn spec_of(node: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": node}}}})
}

fn printed(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
}

#[test]
fn names_are_derived_from_the_kind() {
    let crd = crd(json!({"type": "object"}));
    assert_eq!(crd["spec"]["names"]["singular"], "widget");
    assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(printed(&check_crd(&crd)), Vec::<String>::new());
}

#[test]
fn properties_beside_which_everything_is_taken_are_structural() {
    let schema =
        spec_of(json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": true}));
    assert_eq!(printed(&check_crd(&crd(schema))), Vec::<String>::new());
}

#[test]
fn non_structural_schemas_are_refused_with_the_kubernetes_message() {
    const A: &str = "spec.validation.openAPIV3Schema.properties[spec].properties[a]";
    let table = [
        (json!({"properties": {}}), "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root".to_owned()),
        (spec_of(json!({})), format!("{A}.type: Required value: must not be empty for specified object fields")),
        (spec_of(json!({"type": "array"})), format!("{A}.items: Required value: must be specified")),
        (
            spec_of(json!({"type": "string", "anyOf": [{"type": "string"}]})),
            format!("{A}.anyOf[0].type: Forbidden: must be empty to be structural"),
        ),
        (
            spec_of(json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}})),
            format!("{A}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
        ),
        (
            spec_of(json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": false})),
            format!("{A}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
        ),
        (spec_of(json!({"type": "object", "$ref": "#/x"})), format!("{A}.$ref: Forbidden: $ref is not supported")),
        (
            spec_of(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}})),
            format!("{A}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"),
        ),
        (
            spec_of(json!({"type": "foo"})),
            format!(
                "{A}.type: Unsupported value: \"foo\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""
            ),
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
             metadata is implicitly specified"
                .to_owned(),
        ),
        (
            spec_of(json!({"type": "string", "default": 5})),
            format!("{A}.default: Invalid value: \"integer\": {A}.default in body must be of type string: \"integer\""),
        ),
        (
            spec_of(json!({"type": "object", "properties": {"x": {"type": "string"}}, "default": {"y": 1}})),
            format!("{A}.default: Invalid value: {{\"y\":1}}: must not have unknown fields"),
        ),
        (
            spec_of(json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}})),
            format!("{A}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"),
        ),
        (
            spec_of(json!({
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            })),
            format!(
                "{A}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or \
                 be a required property"
            ),
        ),
        (
            spec_of(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}})),
            format!("{A}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"),
        ),
        (
            spec_of(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
            format!(
                "{A}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without \
                 x-kubernetes-preserve-unknown-fields"
            ),
        ),
    ];
    for (schema, want) in table {
        let errors = printed(&check_crd(&crd(schema.clone())));
        assert_eq!(errors.first(), Some(&want), "{schema}: {errors:?}");
    }
    let errors = printed(&check_crd(&crd(spec_of(json!({"type": "string", "pattern": "("})))));
    assert!(
        errors[0].starts_with(&format!(
            "{A}.pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: "
        )),
        "{errors:?}"
    );
}

#[test]
fn rules_that_cannot_work_are_refused() {
    let rule = |ty: &str, rule: Value| spec_of(json!({"type": ty, "x-kubernetes-validations": [rule]}));
    let table = [
        (
            rule("string", json!({"rule": "self.foo>1"})),
            "compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection\n | self.foo>1\n | ....^",
        ),
        (
            rule("object", json!({"rule": "self.nope == 1"})),
            "undefined field 'nope'",
        ),
        (
            rule("string", json!({"rule": "slef == ''"})),
            "undeclared reference to 'slef' (in container '')",
        ),
        (
            rule("string", json!({"rule": "self ==="})),
            "compilation failed: ERROR: <input>:1:",
        ),
        (
            rule("string", json!({"rule": "self"})),
            "cel expression must evaluate to a bool",
        ),
        (
            rule("string", json!({"rule": "self != ''", "messageExpression": "1"})),
            "messageExpression must evaluate to a string",
        ),
        (
            rule("string", json!({"rule": "self != ''", "reason": "Other"})),
            "Unsupported value: \"Other\": supported values:",
        ),
        (
            rule("object", json!({"rule": "true", "fieldPath": ".nope"})),
            "fieldPath must be a valid path",
        ),
        (
            spec_of(
                json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
            ),
            "oldSelf cannot be used on the uncorrelatable portion of the schema within",
        ),
    ];
    for (schema, want) in table {
        let errors = printed(&check_crd(&crd(schema.clone())));
        assert!(errors.len() == 1 && errors[0].contains(want), "{schema}: {errors:?}");
    }
    let good = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.spec.a == '' || has(self.spec.a) && self.metadata.name.startsWith('x')", "messageExpression": "'bad: ' + self.spec.a"},
        {"rule": "self.spec.l.all(x, x.k != '') && size(self.spec.l) < 3 && self.spec.a.matches('^a')"},
    ], "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"}, "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
    }}}});
    assert_eq!(printed(&check_crd(&crd(good))), Vec::<String>::new());
}

#[test]
fn names_groups_and_versions_are_checked() {
    let change = |pointer: &str, value: Value| {
        let mut crd = crd(json!({"type": "object"}));
        *crd.pointer_mut(pointer).expect("exists") = value;
        printed(&check_crd(&crd))
    };
    assert_eq!(
        change("/metadata/name", json!("foo")),
        ["metadata.name: Invalid value: \"foo\": must be spec.names.plural+\".\"+spec.group"]
    );
    assert_eq!(
        change("/spec/scope", json!("Galaxy")),
        ["spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\""]
    );
    assert_eq!(
        change("/spec/versions/0/storage", json!(false)),
        ["spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version"]
    );
    assert_eq!(
        change("/spec/conversion", json!({"strategy": "Webhook"})),
        [
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Required value"
        ]
    );
    let mut protected = crd(json!({"type": "object"}));
    protected["spec"]["group"] = json!("x.k8s.io");
    protected["metadata"]["name"] = json!("widgets.x.k8s.io");
    assert!(printed(&check_crd(&protected))[0].contains("protected groups must have approval annotation"));
}

#[test]
fn a_version_that_holds_data_may_not_go() {
    let mut old = crd(json!({"type": "object"}));
    old["status"] = json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = json!("v2");
    new["spec"]["names"]["kind"] = json!("Other");
    let errors = printed(&check_crd_update(&new, &old));
    assert_eq!(
        errors[0],
        "spec.names.kind: Invalid value: \"Other\": field is immutable"
    );
    assert!(
        errors[1].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was")
    );
    assert!(check_crd_update(&old, &old).is_empty());
}

#[test]
fn unknown_members_of_a_schema_go_with_a_warning() {
    let mut crd = crd(spec_of(json!({"type": "string", "format": "foo", "x-foo": 1})));
    let (warnings, unknown) = tidy_schemas(&mut crd);
    assert_eq!(warnings, ["unrecognized format \"foo\""]);
    assert_eq!(
        unknown,
        ["spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.a.x-foo"]
    );
    assert!(check_crd(&crd).is_empty());
}
