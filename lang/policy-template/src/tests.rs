use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::*;

/// A cluster of these objects. `withheld` are the names that are not known at first.
#[derive(Default)]
pub(crate) struct Objects {
    objects: Vec<Value>,
    known: RefCell<BTreeMap<String, bool>>,
}

impl Objects {
    pub fn of(objects: Value) -> Self {
        Objects {
            objects: objects.as_array().unwrap().clone(),
            known: RefCell::default(),
        }
    }
}

impl Source for Objects {
    fn kind(&self, _: &str, kind: &str) -> KindReply {
        let (plural, namespaced) = match kind {
            "Secret" => ("secrets", true),
            "ConfigMap" => ("configmaps", true),
            "Node" => ("nodes", false),
            "ClusterClaim" => ("clusterclaims", false),
            "ManagedCluster" => ("managedclusters", false),
            "Unwatched" => return KindReply::Failed(LookupError::Unwatchable("no watch".into())),
            _ => return KindReply::Missing,
        };
        KindReply::Known {
            plural: plural.into(),
            namespaced,
        }
    }

    fn answer(&self, query: &Query) -> Reply {
        if self.known.borrow().get(&query.name) == Some(&false) {
            return Reply::Unknown;
        }
        let text = |it: &Value, pointer: &str| it.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        let fits = |it: &&Value| {
            text(it, "/apiVersion") == query.api_version
                && text(it, "/kind") == query.kind
                && text(it, "/metadata/namespace") == query.namespace
                && (query.name.is_empty() || text(it, "/metadata/name") == query.name)
                && query.selector.split(',').all(|label| {
                    let (key, value) = label.split_once('=').unwrap_or((label, ""));
                    key.is_empty() || it["metadata"]["labels"].get(key).is_some_and(|it| it == value)
                })
        };
        let mut found = self.objects.iter().filter(fits).cloned().map(Arc::new);
        match query.name.as_str() {
            "" => Reply::List(found.collect()),
            _ => Reply::Object(found.next()),
        }
    }
}

fn world() -> Objects {
    Objects::of(json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "cm", "labels": {"a": "b"}},
         "data": {"k": "v", "n": "5", "lines": "a\nb", "t": "<&>"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "other", "name": "cm"}, "data": {"k": "w"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": "s"}, "data": {"p": "aGk="}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {
            "node-role.kubernetes.io/infra": "", "node-role.kubernetes.io/worker": ""}}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": {
            "node-role.kubernetes.io/infra": "", "node-role.kubernetes.io/db": ""}}},
        {"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
         "metadata": {"name": "id"}, "spec": {"value": "c1"}},
        {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
         "metadata": {"name": "c1", "labels": {"env": "prod"}}},
    ]))
}

fn resolve(settings: &TemplateSettings, document: &Value) -> Resolved {
    match render(settings, &world(), Input::Json(document), &TemplateContext::none()) {
        Ok(Resolution::Done(done)) => done,
        other => panic!("{other:?}"),
    }
}

fn made(template: &str) -> Value {
    resolve(&TemplateSettings::managed(), &json!({ "a": template })).value["a"].clone()
}

fn failure(settings: &TemplateSettings, template: &str) -> Unresolved {
    let document = json!({ "a": template });
    render(settings, &world(), Input::Json(&document), &TemplateContext::none()).unwrap_err()
}

fn refused(template: &str) -> String {
    let text = failure(&TemplateSettings::managed(), template).error.message;
    text.rsplit_once(">: ")
        .map_or(text.clone(), |(_, tail)| tail.to_owned())
}

fn keys(key: u8) -> TemplateKeys {
    TemplateKeys {
        key: vec![key; 32],
        previous: Vec::new(),
        iv: vec![7; 16],
    }
}

#[test]
fn values_come_from_config_maps_secrets_and_claims() {
    assert_eq!(made(r#"{{ fromConfigMap "ns" "cm" "k" }}"#), "v");
    assert_eq!(made(r#"{{ fromConfigMap "ns" "cm" "absent" }}"#), "");
    assert_eq!(made(r#"{{ fromSecret "ns" "s" "p" | base64dec }}"#), "hi");
    assert_eq!(made(r#"{{ fromClusterClaim "id" }}"#), "c1");
    assert_eq!(made(r#"{{ lookupClusterClaim "absent" }}"#), "");
    assert_eq!(made(r#"{{ (lookup "v1" "ConfigMap" "ns" "cm").data.k }}"#), "v");
    let listed = r#"{{ len (lookup "v1" "ConfigMap" "ns" "" "a=b").items }}"#;
    assert_eq!(made(listed), "1");
    assert_eq!(
        made(r#"{{ (lookup "v1" "ConfigMap" "ns" "none").data.k }}"#),
        "<no value>"
    );
}

#[test]
fn pipelines_that_end_in_a_type_lose_their_quotes() {
    assert_eq!(made(r#"{{ fromConfigMap "ns" "cm" "n" | toInt }}"#), 5);
    assert_eq!(made(r#"{{ "true" | toBool }}"#), true);
    assert_eq!(made(r#"{{ "[1, 2]" | toLiteral }}"#), json!([1, 2]));
    assert_eq!(made(r#"{{ fromConfigMap "ns" "cm" "n" }}"#), "5");
    let all = json!({"k": "v", "n": "5", "lines": "a\nb", "t": "<&>"});
    assert_eq!(made(r#"{{ copyConfigMapData "ns" "cm" }}"#), all);
}

#[test]
fn automatic_indentation_follows_the_place_of_the_template() {
    let document = json!({"data": {"x": "{{ fromConfigMap \"ns\" \"cm\" \"lines\" | autoindent }}\n"}});
    let made = resolve(&TemplateSettings::managed(), &document).value;
    assert_eq!(made["data"]["x"], "a\nb\n");
}

#[test]
fn nodes_count_when_they_have_exactly_the_roles() {
    assert_eq!(
        made(r#"{{ (index (getNodesWithExactRoles "infra").items 0).metadata.name }}"#),
        "n1"
    );
    assert_eq!(made(r#"{{ len (getNodesWithExactRoles "infra").items }}"#), "1");
    assert_eq!(made(r#"{{ hasNodesWithExactRoles "db" }}"#), "false");
    assert_eq!(
        refused(r#"{{ hasNodesWithExactRoles " " }}"#),
        "error calling hasNodesWithExactRoles: the input is invalid: at least one name must be specified"
    );
}

#[test]
fn what_cannot_be_looked_up_says_why() {
    for (template, text) in [
        (
            r#"{{ fromSecret "ns" "none" "p" }}"#,
            r#"error calling fromSecret: failed to get the secret none from ns: secrets "none" not found"#,
        ),
        (
            r#"{{ fromConfigMap "" "cm" "k" }}"#,
            "error calling fromConfigMap: the input is invalid: namespace, name, and key must be specified",
        ),
        (
            r#"{{ copySecretData "ns" "" }}"#,
            "error calling copySecretData: the input is invalid: namespace and name must be specified",
        ),
        (
            r#"{{ fromClusterClaim "none" }}"#,
            r#"error calling fromClusterClaim: clusterclaims.cluster.open-cluster-management.io "none" not found"#,
        ),
        (
            r#"{{ lookup "v1" "Absent" "" "" }}"#,
            "error calling lookup: one or more API resources are not installed on the API server",
        ),
        (
            r#"{{ lookup "" "ConfigMap" "" "" }}"#,
            "error calling lookup: the apiVersion and kind are required",
        ),
        (
            r#"{{ "a\nb" | toLiteral }}"#,
            "error calling toLiteral: new lines are not allowed in the string passed to the toLiteral function",
        ),
        (
            r#"{{ "a" | protect }}"#,
            "error calling protect: the protect template function is not enabled in this mode",
        ),
        (
            r#"{{ env "HOME" }}"#,
            "error calling env: use of denylisted template function: function 'env' is considered a security risk",
        ),
    ] {
        assert_eq!(refused(template), text, "{template}");
    }
    let missing = failure(&TemplateSettings::managed(), r#"{{ lookup "v1" "Absent" "" "" }}"#);
    assert_eq!(missing.error.cause, ResolutionCause::MissingKind);
    let unwatched = failure(&TemplateSettings::managed(), r#"{{ lookup "v1" "Unwatched" "" "" }}"#);
    assert_eq!(unwatched.error.cause, ResolutionCause::Unwatchable);
}

#[test]
fn a_denied_function_is_refused_by_its_name() {
    let settings = TemplateSettings {
        denied: vec!["lookup".into(), "absent".into()],
        ..TemplateSettings::managed()
    };
    let text = failure(&settings, r#"{{ lookup "v1" "ConfigMap" "ns" "cm" }}"#)
        .error
        .message;
    assert!(
        text.ends_with("use of denylisted template function: function 'lookup' is not allowed"),
        "{text}"
    );
}

#[test]
fn hub_templates_read_their_own_namespace_and_cluster_only() {
    let settings = TemplateSettings::hub("ns", "c1");
    let of = |template: &str| resolve(&settings, &json!({ "a": template })).value["a"].clone();
    assert_eq!(of(r#"{{hub fromConfigMap "" "cm" "k" hub}}"#), "v");
    let cluster =
        r#"{{hub (lookup "cluster.open-cluster-management.io/v1" "ManagedCluster" "" "c1").metadata.labels.env hub}}"#;
    assert_eq!(of(cluster), "prod");
    assert_eq!(of(r#"{{ left "alone" }}"#), r#"{{ left "alone" }}"#);
    let tail = |template: &str| failure(&settings, template).error.message;
    let text = tail(r#"{{hub fromConfigMap "other" "cm" "k" hub}}"#);
    assert!(text.ends_with("the namespace argument is restricted to ns"), "{text}");
    let text = tail(r#"{{hub lookup "v1" "Node" "" "n1" hub}}"#);
    assert!(
        text.ends_with("lookup of cluster-scoped resource 'Node/n1' is not allowed"),
        "{text}"
    );
}

#[test]
fn secrets_are_encrypted_on_hubs_and_decrypted_on_clusters() {
    let hub = TemplateSettings {
        encryption: TemplateEncryption::Encrypt(keys(1)),
        ..TemplateSettings::hub("ns", "c1")
    };
    let coded = resolve(
        &hub,
        &json!({"a": r#"{{hub fromSecret "ns" "s" "p" hub}}"#, "b": "{{hub \"x\\ny\" | protect hub}}"}),
    );
    assert!(coded.sensitive);
    let text = coded.value["a"].as_str().unwrap();
    assert!(text.starts_with("$ocm_encrypted:"), "{text}");
    let with = |it: TemplateKeys| TemplateSettings {
        encryption: TemplateEncryption::Decrypt(it),
        ..TemplateSettings::managed()
    };
    let plain = resolve(&with(keys(1)), &json!({"a": text, "b": coded.value["b"]}));
    assert!(plain.sensitive);
    assert_eq!(plain.value["a"], "aGk=");
    assert_eq!(plain.value["b"], "x\\ny");
    // The key of before the last rotation is tried too.
    let rotated = TemplateKeys {
        previous: vec![1; 32],
        ..keys(2)
    };
    assert_eq!(resolve(&with(rotated), &json!({ "a": text })).value["a"], "aGk=");
    let wrong = failure(&with(keys(2)), text).error.message;
    assert!(
        wrong.starts_with(&format!("decryption of {text} failed: invalid PCKS7 padding: ")),
        "{wrong}"
    );
    let cut = failure(&with(keys(2)), "$ocm_encrypted:aGk=").error.message;
    assert!(
        cut.ends_with("invalid PCKS7 padding: the padding length is invalid"),
        "{cut}"
    );
}

#[test]
fn unusable_keys_are_refused_before_anything_is_rendered() {
    let cause = |it: TemplateKeys| {
        let settings = TemplateSettings {
            encryption: TemplateEncryption::Decrypt(it),
            ..TemplateSettings::managed()
        };
        let error = failure(&settings, "{{ fail }}").error;
        assert!(
            error.message.starts_with("error validating EncryptionConfig: "),
            "{error}"
        );
        error.cause
    };
    let short = |at: fn(&mut TemplateKeys)| {
        let mut it = keys(1);
        at(&mut it);
        it
    };
    assert_eq!(cause(short(|it| it.key.truncate(3))), ResolutionCause::InvalidKey);
    assert_eq!(cause(short(|it| it.key.clear())), ResolutionCause::InvalidKey);
    assert_eq!(cause(short(|it| it.iv.truncate(3))), ResolutionCause::InvalidIv);
}

#[test]
fn the_context_names_its_type_when_a_field_is_missing() {
    let object = Arc::new(json!({"metadata": {"name": "n"}}));
    let tell = |context: &TemplateContext| {
        let document = json!({"a": "{{ .ObjectNamespace }}"});
        match render(&TemplateSettings::managed(), &world(), Input::Json(&document), context) {
            Ok(Resolution::Done(done)) => done.value["a"].to_string(),
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string().rsplit_once(">: ").unwrap().1.to_owned(),
        }
    };
    assert_eq!(tell(&TemplateContext::object(&object, "ns", "n")), r#""ns""#);
    assert_eq!(
        tell(&TemplateContext::object(&object, "", "n")),
        "can't evaluate field ObjectNamespace in type struct { Object map[string]interface {}; ObjectName string }"
    );
    assert_eq!(
        tell(&TemplateContext::none()),
        "can't evaluate field ObjectNamespace in type struct {}"
    );
    let hub = TemplateContext::hub("c1", BTreeMap::new(), &json!({"metadata": {"name": "p"}}));
    assert_eq!(
        tell(&hub),
        "can't evaluate field ObjectNamespace in type propagator.templateCtx"
    );
}

#[test]
fn the_context_of_hub_templates_has_cluster_and_policy() {
    let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
    let root = json!({"metadata": {"name": "p", "namespace": "ns", "labels": {"l": "m"}}});
    let context = TemplateContext::hub("c1", labels, &root);
    let template = "{{hub .ManagedClusterName hub}} {{hub .ManagedClusterLabels.env hub}} \
                    {{hub .PolicyMetadata.name hub}} {{hub .PolicyMetadata.labels.l hub}}";
    let document = json!({ "a": template });
    let settings = TemplateSettings::hub("ns", "c1");
    let made = render(&settings, &world(), Input::Json(&document), &context).unwrap();
    assert!(
        matches!(&made, Resolution::Done(it) if it.value["a"] == "c1 prod p m"),
        "{made:?}"
    );
}

#[test]
fn whole_numbers_are_read_with_decimals_and_without() {
    for (text, number) in [
        ("1.9", 1),
        ("-1.50", -1),
        ("7.", 7),
        (".5", 0),
        ("x.5", 0),
        ("5", 5),
        ("", 0),
    ] {
        assert_eq!(made(&format!("{{{{ {text:?} | toInt }}}}")), number, "{text}");
    }
    assert_eq!(
        made(r#"{{ "99999999999999999999" | atoi | toString }}"#),
        i64::MAX.to_string()
    );
}

#[test]
fn a_cluster_scoped_look_up_needs_no_namespace() {
    assert_eq!(made(r#"{{ (lookup "v1" "Node" "ns" "n1").metadata.name }}"#), "n1");
}

#[test]
fn an_empty_character_is_told_as_go_tells_it() {
    let why = refused("{{ 'a' | upper }} it's");
    assert!(why.ends_with("template: tmpl:1: invalid syntax"), "{why}");
}

#[test]
fn an_absent_object_is_null_in_json() {
    assert_eq!(
        made(r#"{{ lookup "v1" "ConfigMap" "ns" "absent" | toRawJson | toLiteral }}"#),
        Value::Null
    );
    assert_eq!(made(r#"{{ lookup "v1" "ConfigMap" "ns" "absent" | toYAML }}"#), "{}");
    assert_eq!(
        made(r#"{{ (lookup "v1" "ConfigMap" "ns" "absent").data.k }}"#),
        "<no value>"
    );
}

#[test]
fn bytes_that_are_no_text_are_no_output() {
    let why = refused(r#"{{ "AP8Q" | base64dec }}"#);
    assert!(why.ends_with("yaml: invalid leading UTF-8 octet"), "{why}");
    assert_eq!(made(r#"{{ "AP8Q" | base64dec | base64enc }}"#), "AP8Q");
}

#[test]
fn a_skipped_object_is_told() {
    let settings = TemplateSettings {
        skip_object: true,
        ..TemplateSettings::managed()
    };
    let skipped = |template: &str| resolve(&settings, &json!({ "a": template })).skip_object;
    assert!(skipped("{{ skipObject }}"));
    assert!(skipped("{{ skipObject true }}{{ skipObject false }}"));
    assert!(!skipped("{{ skipObject false }}"));
    let failed = failure(&settings, "{{ skipObject }}{{ fail \"x\" }}");
    assert!(failed.skip_object);
    let text = failure(&settings, "{{ skipObject 1 }}").error.message;
    assert!(text.ends_with("expected boolean but received '1'"), "{text}");
    assert!(refused("{{ skipObject }}").ends_with(r#"function "skipObject" not defined"#));
}

#[test]
fn what_is_not_known_yet_is_asked_for() {
    let world = world();
    world.known.borrow_mut().insert("cm".into(), false);
    let document = json!({"a": r#"{{ fromConfigMap "ns" "cm" "k" }}"#});
    let run = || {
        render(
            &TemplateSettings::managed(),
            &world,
            Input::Json(&document),
            &TemplateContext::none(),
        )
    };
    let query = Query {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: "ns".into(),
        name: "cm".into(),
        selector: String::new(),
    };
    assert_eq!(run().unwrap(), Resolution::Needs(vec![query.clone()]));
    world.known.borrow_mut().clear();
    assert!(matches!(run().unwrap(), Resolution::Done(it) if it.value["a"] == "v" && it.queries == [query]));
}

#[test]
fn raw_yaml_may_be_made_by_loops() {
    let text = "{{- range $at, $it := list \"x\" \"y\" }}\n- objectDefinition:\n    metadata:\n      name: {{ $it }}\n{{- end }}\n";
    let made = render(
        &TemplateSettings::managed(),
        &world(),
        Input::Yaml(text),
        &TemplateContext::none(),
    )
    .unwrap();
    let names =
        json!([{"objectDefinition": {"metadata": {"name": "x"}}}, {"objectDefinition": {"metadata": {"name": "y"}}}]);
    assert!(matches!(&made, Resolution::Done(it) if it.value == names), "{made:?}");
}

#[test]
fn texts_tell_whether_they_have_templates() {
    assert!(has_template("{{hub x hub}}", Delimiters::Managed, false));
    assert!(!has_template("{{ x }}", Delimiters::Hub, false));
    assert!(has_template("$ocm_encrypted:x", Delimiters::Managed, true));
    assert!(!has_template("$ocm_encrypted:x", Delimiters::Managed, false));
    for (text, is) in [
        ("{{hub fromSecret \"a\" hub}}", true),
        ("{{hub- copySecretData \"a\" hub}}", true),
        ("{{hub \"a\" | protect hub}}", true),
        ("{{hub \"a\" | protect | quote hub}}", false),
        ("{{ fromSecret \"a\" }}", false),
    ] {
        assert_eq!(uses_encryption(text, Delimiters::Hub), is, "{text}");
    }
}

#[test]
fn endless_templates_and_look_ups_come_to_an_end() {
    let text =
        refused("{{ range until 4000 }}{{ range until 4000 }}{{ range until 4000 }}x{{ end }}{{ end }}{{ end }}");
    assert!(
        text.contains("takes too long") || text.contains("larger than"),
        "{text}"
    );
    let text = refused(r#"{{ range until 3000 }}{{ lookup "v1" "ConfigMap" "ns" (toString .) }}{{ end }}"#);
    assert!(text.ends_with("looks up more than 2000 different things"), "{text}");
    let text = refused(r#"{{ indent 900000000000 "x" }}"#);
    assert!(text.ends_with("the indentation is too large"), "{text}");
}

#[test]
fn messages_have_the_functions_of_sprig_and_no_look_ups() {
    let data = json!({"DefaultMessage": "x", "Policy": {"a": 1}});
    assert_eq!(
        render_message("{{ .DefaultMessage | upper }} {{ .Policy.a }} {{ .Policy.b }}", &data).unwrap(),
        "X 1 <no value>"
    );
    let text = render_message("{{ lookup }}", &data).unwrap_err();
    assert_eq!(
        text,
        r#"failed to parse custom template: template: custom-msg:1: function "lookup" not defined"#
    );
    let text = render_message("{{ fail \"no\" }}", &data).unwrap_err();
    assert!(
        text.starts_with("failed to execute: template: custom-msg:1:3: executing"),
        "{text}"
    );
}
