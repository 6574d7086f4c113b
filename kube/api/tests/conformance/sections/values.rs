//! Custom resources against their schema: pruning, defaults, validation, rules, numbers.

use crate::{
    check::{Check, must, should},
    client::Ask,
    cx::{CRDS, Cx, definition, version},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "136",
            "unknown fields are pruned with a warning, preserved ones kept, embedded resources checked",
            pruning,
        ),
        must(
            "137",
            "defaults on create, update and of old objects; nulls by their kind of field",
            defaults,
        ),
        must("138", "what a value gets wrong is said in Kubernetes' words", messages),
        must(
            "139",
            "int-or-string takes a number and a text, and no truth value",
            int_or_string,
        ),
        should(
            "147",
            "what is invalid and unchanged is tolerated, what is changed is not",
            ratcheting,
        ),
        must(
            "148",
            "CEL rules see self and oldSelf, and say what, why and where; broken ones are 422, endless ones stopped",
            rules,
        ),
        should(
            "149",
            "optionalOldSelf; no transition rule inside an atomic list",
            transitions,
        ),
        must("154", "large numbers, floats and exponents are normalised", numbers),
    ]
}

async fn pruning(c: Cx) {
    let kind = c
        .define_simple(
            "things",
            "Thing",
            json!({"a": {"type": "string"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "object", "properties": {"x": {"type": "string"}}}}},
                "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}),
        )
        .await;
    c.make(
        &kind.path,
        kind.object(
            "a",
            json!({"a": "1", "b": 2, "free": {"z": {"y": 1}, "known": {"x": "1", "w": 2}}}),
        ),
    )
    .await
    .warns("unknown field \"spec.b\"")
    .has("/spec", json!({"a": "1", "free": {"z": {"y": 1}, "known": {"x": "1"}}}));
    // Applied, what is undeclared below what is free is taken and owned, and pruned as ever.
    let applied = kind.object("applied", json!({"free": {"z": {"y": 1}, "known": {"x": "1", "w": 2}}}));
    let applied = c.apply(&kind.at("applied"), "m", applied).await.is(201);
    let applied = applied.has("/spec", json!({"free": {"z": {"y": 1}, "known": {"x": "1"}}}));
    assert_eq!(
        applied.at("/metadata/managedFields/0/fieldsV1/f:spec/f:free/f:known"),
        &json!({"f:w": {}, "f:x": {}})
    );
    c.apply(&kind.at("applied"), "m", kind.object("applied", json!({"c": 1})))
        .await
        .is(500)
        .mentions(".spec.c: field not declared in schema");
    let embedded = |it: Value| kind.object("b", json!({"emb": it}));
    c.post(
        &kind.path,
        embedded(json!({"kind": "ConfigMap", "metadata": {"name": "x"}})),
    )
    .await
    .fails(422, "Invalid")
    .mentions("spec.emb.apiVersion: Required value");
    c.post(
        &kind.path,
        embedded(json!({"apiVersion": "v1", "metadata": {"name": "x"}})),
    )
    .await
    .fails(422, "Invalid")
    .mentions("spec.emb.kind: Required value");
    let whole = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "creationTimestamp": null, "bogus": 1}, "data": {"k": "v"}});
    c.make(&kind.path, embedded(whole))
        .await
        .warns("unknown field \"spec.emb.metadata.bogus\"")
        .has(
            "/spec/emb",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "v"}}),
        );
    // Its name may be anything: rules of names are those of the kind. The rest of the metadata is judged.
    let names = "?dryRun=All";
    let with = |it: Value| kind.object("c", json!({"emb": it}));
    for name in ["Bad_Name", "-x"] {
        let it = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        c.post(&format!("{}{names}", kind.path), with(it)).await.is(201);
    }
    for (it, code, said) in [
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "N_S"}}),
            422,
            "spec.emb.metadata.namespace: Invalid value: \"N_S\": a lowercase RFC 1123 label must consist of",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a b": "c"}}}),
            422,
            "spec.emb.metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters",
        ),
        (
            json!({"apiVersion": "a/b/c", "kind": "ConfigMap"}),
            422,
            "spec.emb.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        ),
        (
            json!({"apiVersion": "v1", "kind": "config_map"}),
            422,
            "spec.emb.kind: Invalid value: \"config_map\": may have mixed case, but should otherwise match: a DNS-1035 label",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": 1}}}),
            400,
            "spec.emb.metadata: Invalid value: {\"labels\":{\"a\":1}}: json: cannot unmarshal number into Go struct field \
             ObjectMeta.labels of type string",
        ),
    ] {
        c.post(&format!("{}{names}", kind.path), with(it))
            .await
            .is(code)
            .mentions(said);
    }
}

/// `null` where it may be and where it may not; a PUT is defaulted like a POST.
async fn nulls(c: &Cx) {
    let text = json!({"type": "string"});
    let kind = c
        .define_simple(
            "nulls",
            "Nullable",
            json!({"both": {"type": "string", "nullable": true, "default": "d"}, "list": {"type": "array", "items": text},
                "nullables": {"type": "array", "items": {"type": "string", "nullable": true}},
                "objects": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string", "default": "x"}}}}}),
        )
        .await;
    let spec = json!({"both": null, "nullables": ["a", null], "objects": [{"x": null}, {}]});
    c.make(&kind.path, kind.object("a", spec)).await.has(
        "/spec",
        json!({"both": null, "nullables": ["a", null], "objects": [{"x": "x"}, {"x": "x"}]}),
    );
    c.post(&kind.path, kind.object("b", json!({"list": ["a", null]})))
        .await
        .fails(422, "Invalid")
        .mentions("spec.list[1]: Invalid value: \"null\": spec.list[1] in body must be of type string: \"null\"");
    let mut object = c.get(&kind.at("a")).await.is(200).json;
    object["spec"] = json!({"objects": [{}]});
    let put = c.put(&kind.at("a"), &object).await.is(200);
    assert_eq!(put.at("/spec"), &json!({"both": "d", "objects": [{"x": "x"}]}));
    c.merge(&kind.at("a"), json!({"spec": {"both": null}}))
        .await
        .is(200)
        .has("/spec/both", "d");
}

async fn defaults(c: Cx) {
    let properties = |more: Value| {
        let mut all = json!({"d": {"type": "string", "default": "dd"}, "o": {"type": "object", "default": {}, "properties": {
            "n": {"type": "integer", "default": 5}}}, "nn": {"type": "string", "nullable": true}, "p": {"type": "string"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string", "default": "yy"}}}}});
        for (key, value) in more.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    };
    let kind = c.define_simple("things", "Thing", properties(json!({}))).await;
    c.make(&kind.path, kind.object("a", json!({"l": [{"x": "1"}]})))
        .await
        .has("/spec", json!({"d": "dd", "o": {"n": 5}, "l": [{"x": "1", "y": "yy"}]}));
    c.merge(&kind.at("a"), json!({"spec": {"d": null, "o": {"n": 6}}}))
        .await
        .is(200)
        .has("/spec/d", "dd")
        .has("/spec/o/n", 6);
    c.make(&kind.path, kind.object("b", json!({"d": null, "nn": null, "p": null})))
        .await
        .has("/spec", json!({"d": "dd", "nn": null, "o": {"n": 5}}));
    nulls(&c).await;
    c.merge(&kind.crd, json!({"spec": {"versions": [version("v1", properties(json!({"late": {"type": "string", "default": "later"}})))]}}))
        .await
        .is(200);
    let (old, _) = c.until(&kind.at("a"), |it| it.at("/spec/late").is_string()).await;
    assert_eq!(
        old["spec"]["late"], "later",
        "an old object is defaulted when it is read"
    );
    let list = c.get(&kind.path).await.is(200);
    assert_eq!(list.at("/items/0/spec/late"), "later", "in a list too");
}

async fn messages(c: Cx) {
    super::rules::refused(&c).await;
    unchecked_rules(&c).await;
    let text = json!({"type": "string"});
    let kind = c
        .define_simple(
            "widgets",
            "Widget",
            json!({"n": {"type": "integer"}, "i": {"type": "integer", "format": "int32"}, "pat": {"type": "string", "pattern": "^[a-z]+$"},
                "en": {"type": "string", "enum": ["A", "B"]}, "mn": {"type": "integer", "minimum": 1, "maximum": 5},
                "ml": {"type": "string", "minLength": 2, "maxLength": 4}, "li": {"type": "array", "items": text, "minItems": 1, "maxItems": 2},
                "mp": {"type": "object", "additionalProperties": text, "maxProperties": 1}, "mo": {"type": "integer", "multipleOf": 5},
                "ns": {"type": "string", "not": {"enum": ["bad"]}}, "dt": {"type": "string", "format": "date-time"},
                "em": {"type": "string", "format": "email"}, "uu": {"type": "string", "format": "uuid"},
                "v4": {"type": "string", "format": "ipv4"}, "du": {"type": "string", "format": "duration"},
                "cd": {"type": "string", "format": "cidr"}, "da": {"type": "string", "format": "date"},
                "by": {"type": "string", "format": "byte"}, "uk": {"type": "string", "format": "unheard-of"},
                "mi": {"type": "object", "additionalProperties": text, "minProperties": 1},
                "xn": {"type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 2, "exclusiveMaximum": true},
                "lst": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": text}}},
                "se": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
                "one": {"type": "object", "properties": {"a": text, "b": text}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}),
        )
        .await;
    let mut wrong = Vec::new();
    for (spec, wanted) in [
        (
            json!({"n": "x"}),
            "spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\"",
        ),
        (json!({"i": 1.5}), "must be of type int32: \"float64\""),
        (
            json!({"pat": "A"}),
            "spec.pat: Invalid value: \"A\": spec.pat in body should match '^[a-z]+$'",
        ),
        (
            json!({"en": "C"}),
            "spec.en: Unsupported value: \"C\": supported values: \"A\", \"B\"",
        ),
        (
            json!({"mn": 0}),
            "spec.mn: Invalid value: 0: spec.mn in body should be greater than or equal to 1",
        ),
        (
            json!({"mn": 6}),
            "spec.mn: Invalid value: 6: spec.mn in body should be less than or equal to 5",
        ),
        (
            json!({"ml": "a"}),
            "spec.ml: Invalid value: \"a\": spec.ml in body should be at least 2 chars long",
        ),
        (
            json!({"ml": "abcde"}),
            "spec.ml: Too long: may not be more than 4 bytes",
        ),
        (
            json!({"li": []}),
            "spec.li: Invalid value: 0: spec.li in body should have at least 1 items",
        ),
        (
            json!({"li": ["a", "b", "c"]}),
            "spec.li: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"mp": {"a": "1", "b": "2"}}),
            "spec.mp: Too many: 2: must have at most 1 item",
        ),
        (json!({"mo": 7}), "spec.mo in body should be a multiple of 5"),
        (
            json!({"ns": "bad"}),
            "<nil>: Invalid value: \"\": \"spec.ns\" must not validate the schema (not)",
        ),
        (
            json!({"dt": "notadate"}),
            "spec.dt in body must be of type date-time: \"notadate\"",
        ),
        (
            json!({"i": 2_147_483_648_i64}),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.i",
        ),
        (
            json!({"em": "nobody"}),
            "spec.em: Invalid value: \"nobody\": spec.em in body must be of type email: \"nobody\"",
        ),
        (json!({"uu": "123"}), "spec.uu in body must be of type uuid: \"123\""),
        (json!({"v4": "::1"}), "spec.v4 in body must be of type ipv4: \"::1\""),
        (json!({"du": "1"}), "spec.du in body must be of type duration: \"1\""),
        (
            json!({"cd": "10.0.0.0"}),
            "spec.cd in body must be of type cidr: \"10.0.0.0\"",
        ),
        (
            json!({"da": "2026-13-01"}),
            "spec.da in body must be of type date: \"2026-13-01\"",
        ),
        (
            json!({"by": "no base64!"}),
            "spec.by in body must be of type byte: \"no base64!\"",
        ),
        (
            json!({"mi": {}}),
            "spec.mi: Invalid value: 0: spec.mi in body should have at least 1 properties",
        ),
        (
            json!({"xn": 1}),
            "spec.xn: Invalid value: 1: spec.xn in body should be greater than 1",
        ),
        (
            json!({"xn": 2}),
            "spec.xn: Invalid value: 2: spec.xn in body should be less than 2",
        ),
        (json!({"lst": [{}]}), "spec.lst[0].k: Required value"),
        (
            json!({"lst": [{"k": "a"}, {"k": "a"}]}),
            "spec.lst[1]: Duplicate value: {\"k\":\"a\"}",
        ),
        (json!({"se": ["a", "a"]}), "spec.se[1]: Duplicate value: \"a\""),
        (
            json!({"one": {"a": "1", "b": "2"}}),
            "\"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ),
        (
            json!({"one": {}}),
            "\"spec.one\" must validate one and only one schema (oneOf). Found none valid",
        ),
    ] {
        let reply = c.post(&kind.path, kind.object("n", spec.clone())).await;
        let given = reply["message"].as_str().unwrap_or_default();
        let start = format!("{} \"n\" is invalid: ", kind.full());
        if reply.code != 422 || !given.starts_with(&start) || !given.contains(wanted) {
            wrong.push(format!("{spec}: expected {wanted:?}, came {given:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let fine = json!({"i": 2_147_483_647, "em": "a@b.example", "uu": "0f8fad5b-d9cb-469f-a165-70867728950e", "v4": "10.0.0.1",
        "du": "1h30m", "cd": "10.0.0.0/8", "da": "2026-12-31", "by": "eA==", "uk": "anything", "mi": {"a": "b"}, "xn": 1.5,
        "dt": "2026-01-01T00:00:00Z", "mo": 10});
    c.make(&kind.path, kind.object("fine", fine.clone()))
        .await
        .has("/spec", fine);
    let two = c
        .post(&kind.path, kind.object("n", json!({"n": "x", "mn": 0})))
        .await
        .fails(422, "Invalid");
    assert!(
        two["message"].as_str().unwrap().contains("is invalid: ["),
        "{}",
        two.came()
    );
    assert_eq!(two.at("/details/causes").as_array().unwrap().len(), 2);
    assert_eq!(
        (two.at("/details/kind"), two.at("/details/group")),
        (&json!("Widget"), &json!(kind.group))
    );
}

/// Rules are not looked at when what they are about is not what they take it for, and that is said.
async fn unchecked_rules(c: &Cx) {
    let kind = c
        .define(
            "ruleds",
            "Ruled",
            with_rules(
                json!([{"rule": "self.n > 0", "message": "n is to be positive"}]),
                json!({"n": {"type": "integer"}, "en": {"type": "string", "enum": ["A"]},
                    "low": {"type": "integer", "minimum": 1}}),
            ),
        )
        .await;
    let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the \
                     existing errors to complete validation";
    let create = async |spec: Value| c.post(&kind.path, kind.object("a", spec)).await.fails(422, "Invalid");
    let reply = create(json!({"n": 0, "en": "C"})).await.mentions(unchecked);
    assert!(!reply["message"].to_string().contains("positive"), "{}", reply.came());
    let reply = create(json!({"n": "x"})).await.mentions(unchecked);
    assert_eq!(reply.at("/details/causes").as_array().unwrap().len(), 2);
    // A number that is too small is still one.
    let reply = create(json!({"n": 0, "low": 0})).await.mentions("n is to be positive");
    assert!(
        !reply["message"].to_string().contains("not checked"),
        "{}",
        reply.came()
    );
}

async fn int_or_string(c: Cx) {
    let kind = c
        .define_simple(
            "things",
            "Thing",
            json!({"v": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}),
        )
        .await;
    c.make(&kind.path, kind.object("a", json!({"v": 5})))
        .await
        .has("/spec/v", 5);
    c.make(&kind.path, kind.object("b", json!({"v": "50%"})))
        .await
        .has("/spec/v", "50%");
    c.post(&kind.path, kind.object("c", json!({"v": true})))
        .await
        .fails(422, "Invalid")
        .mentions("must be of type integer,string: \"boolean\"");
}

async fn ratcheting(c: Cx) {
    let text = json!({"type": "string"});
    let plain = json!({"a": text, "b": text, "l": {"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": text, "v": text}}},
        "ruled": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
        "atomic": {"type": "array", "items": text}, "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "step": {"type": "integer"}});
    let kind = c.define_simple("things", "Thing", plain.clone()).await;
    c.make(
        &kind.path,
        kind.object(
            "a",
            json!({"a": "UPPER", "b": "1", "l": [{"k": "1", "v": "UPPER"}], "ruled": {"x": 2, "y": 1}, "atomic": ["LONG"],
                "set": ["LONG"], "step": 5}),
        ),
    )
    .await;
    let mut strict = plain;
    strict["a"]["pattern"] = "^[a-z]+$".into();
    strict["l"]["items"]["properties"]["v"]["maxLength"] = 2.into();
    strict["ruled"]["x-kubernetes-validations"] = json!([{"rule": "self.x <= self.y", "message": "x is more than y"}]);
    strict["atomic"]["items"]["maxLength"] = 2.into();
    strict["set"]["items"]["maxLength"] = 2.into();
    strict["step"]["x-kubernetes-validations"] = json!([{"rule": "self > oldSelf", "message": "no step up"}]);
    c.merge(&kind.crd, json!({"spec": {"versions": [version("v1", strict)]}}))
        .await
        .is(200);
    // Somewhere else the old schema holds for a moment still.
    let probe = Ask::post(
        format!("{}?dryRun=All", kind.path),
        &kind.object("probe", json!({"a": "UPPER"})),
    );
    c.until_asked(&c.admin, &probe, |it| it.code == 422).await;
    // A transition is looked at in every update, also of what stays.
    c.merge(&kind.at("a"), json!({"spec": {"b": "2"}}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.step: Invalid value: 5: no step up");
    c.merge(&kind.at("a"), json!({"spec": {"step": null}})).await.is(200);
    c.merge(&kind.at("a"), json!({"spec": {"b": "2"}})).await.is(200);
    c.merge(
        &kind.at("a"),
        json!({"spec": {"l": [{"k": "0", "v": "x"}, {"k": "1", "v": "UPPER"}]}}),
    )
    .await
    .is(200);
    // A rule whose value stays is not broken anew; one whose value changes is.
    c.merge(&kind.at("a"), json!({"spec": {"b": "3", "ruled": {"x": 2}}}))
        .await
        .is(200);
    c.merge(&kind.at("a"), json!({"spec": {"ruled": {"x": 3}}}))
        .await
        .fails(422, "Invalid")
        .mentions("spec.ruled: Invalid value: x is more than y");
    // Lists without keys count as a whole.
    for list in ["atomic", "set"] {
        c.merge(&kind.at("a"), json!({"spec": {"b": "4", list: ["LONG"]}}))
            .await
            .is(200);
        c.merge(&kind.at("a"), json!({"spec": {list: ["LONG", "x"]}}))
            .await
            .fails(422, "Invalid")
            .mentions(&format!("spec.{list}[0]: Too long: may not be more than 2 bytes"));
        c.merge(&kind.at("a"), json!({"spec": {list: ["x"]}})).await.is(200);
    }
    c.merge(&kind.at("a"), json!({"spec": {"a": "OTHER"}}))
        .await
        .fails(422, "Invalid")
        .mentions("should match '^[a-z]+$'");
    c.merge(&kind.at("a"), json!({"spec": {"l": [{"k": "1", "v": "LONGER"}]}}))
        .await
        .fails(422, "Invalid");
    c.post(&kind.path, kind.object("b", json!({"a": "UPPER"})))
        .await
        .fails(422, "Invalid");
}

fn with_rules(rules: Value, properties: Value) -> Value {
    let mut it = version("v1", json!({}));
    it["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules});
    json!({"versions": [it]})
}

async fn rules(c: Cx) {
    let number = json!({"type": "integer"});
    let kind = c
        .define(
            "things",
            "Thing",
            with_rules(
                json!([
                    {"rule": "self.a <= self.b", "messageExpression": "'a must be <= b, it is ' + (self.a == 3 ? '3' : 'more')"},
                    {"rule": "self.a != 13", "message": "a must not be 13", "reason": "FieldValueForbidden", "fieldPath": ".a"},
                    {"rule": "oldSelf.b <= self.b", "message": "b may not shrink"},
                ]),
                json!({"a": number, "b": number, "type": {"type": "string", "maxLength": 9},
                    "condition": {"type": "string", "default": "", "maxLength": 9}}),
            ),
        )
        .await;
    c.make(&kind.path, kind.object("ok", json!({"a": 1, "b": 2}))).await;
    let refuse = async |spec: Value| c.post(&kind.path, kind.object("bad", spec)).await.fails(422, "Invalid");
    refuse(json!({"a": 3, "b": 2}))
        .await
        .mentions("spec: Invalid value: a must be <= b, it is 3");
    let forbidden = refuse(json!({"a": 13, "b": 20}))
        .await
        .mentions("spec.a: Forbidden: a must not be 13");
    assert_eq!(forbidden.at("/details/causes/0/reason"), "FieldValueForbidden");
    c.merge(&kind.at("ok"), json!({"spec": {"b": 1}}))
        .await
        .fails(422, "Invalid")
        .mentions("b may not shrink");
    c.merge(&kind.at("ok"), json!({"spec": {"b": 3}})).await.is(200);
    rule_of_ocm(&c).await;
    reasons(&c).await;
    for (rule, message) in [
        ("self.foo > 1", "compilation failed: ERROR: <input>:1:5"),
        ("self.a + 1", "must evaluate to a bool"),
        ("self.a >", "compilation failed"),
    ] {
        let crd = definition(
            &kind.group,
            "others",
            "Other",
            with_rules(json!([{"rule": rule}]), json!({"a": number})),
        );
        c.post(CRDS, crd).await.fails(422, "Invalid").mentions(message);
    }
    for (rule, message) in [
        (
            json!({"rule": "true", "messageExpression": "1 + 1"}),
            "messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "true", "messageExpression": "self.nope"}),
            "compilation failed",
        ),
        (
            json!({"rule": "true", "reason": "FieldValueOdd"}),
            "reason: Unsupported value: \"FieldValueOdd\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \
             \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (json!({"rule": ""}), "rule: Required value"),
    ] {
        let crd = definition(
            &kind.group,
            "others",
            "Other",
            with_rules(json!([rule]), json!({"a": number})),
        );
        c.post(CRDS, crd).await.fails(422, "Invalid").mentions(message);
    }
    let bad_path = with_rules(json!([{"rule": "true", "fieldPath": ".nope"}]), json!({"a": number}));
    c.post(CRDS, definition(&kind.group, "others", "Other", bad_path))
        .await
        .fails(422, "Invalid")
        .mentions("fieldPath");
    let endless = with_rules(
        json!([{"rule": "self.l.all(a, self.l.all(b, a + b != 'never'))"}]),
        json!({"l": {"type": "array", "maxItems": 3000, "items": {"type": "string", "maxLength": 10}}}),
    );
    // Who can tell what a rule will cost refuses it here already.
    let probe = c
        .post(
            &format!("{CRDS}?dryRun=All"),
            definition(&kind.group, "runaways", "Runaway", endless.clone()),
        )
        .await;
    if probe.code == 422 {
        probe.mentions("estimated rule cost exceeds budget");
        return;
    }
    let endless = c.define("runaways", "Runaway", endless).await;
    let list: Vec<String> = (0..3000).map(|it| format!("i{it}")).collect();
    c.post(&endless.path, endless.object("a", json!({"l": list})))
        .await
        .fails(422, "Invalid")
        .mentions("cost");
}

/// The rule that the definitions of Open Cluster Management have, as it stands there.
async fn rule_of_ocm(c: &Cx) {
    let rule = r#"self.type != 'CEL' || self.condition != """#;
    let properties = json!({"type": {"type": "string", "enum": ["WellKnownConditions", "CEL"]}, "condition": {"type": "string"},
        "message": {"type": "string"}});
    let item = json!({"type": "object", "required": ["condition", "type"], "properties": properties,
        "x-kubernetes-validations": [{"rule": rule, "message": "Condition is required for CEL rules"}]});
    let kind = c
        .define(
            "works",
            "Work",
            with_rules(json!([]), json!({"conditionRules": {"type": "array", "items": item}})),
        )
        .await;
    let with = |rules: Value| kind.object("a", json!({"conditionRules": rules}));
    let fine = json!([{"type": "CEL", "condition": "Available"}, {"type": "WellKnownConditions", "condition": ""}]);
    c.make(&kind.path, with(fine.clone())).await;
    let refused = c
        .post(&kind.path, with(json!([fine[0], {"type": "CEL", "condition": ""}])))
        .await
        .fails(422, "Invalid");
    let refused = refused.says(&format!(
        "{} \"a\" is invalid: spec.conditionRules[1]: Invalid value: Condition is required for CEL rules",
        kind.full()
    ));
    assert_eq!(
        refused.at("/details/causes"),
        &json!([{"reason": "FieldValueInvalid", "field": "spec.conditionRules[1]",
            "message": "Invalid value: Condition is required for CEL rules"}])
    );
    c.post(&kind.path, with(json!([{"type": "CEL"}])))
        .await
        .fails(422, "Invalid")
        .mentions("spec.conditionRules[0].condition: Required value")
        .mentions("some validation rules were not checked");
}

/// What a rule says is wrong is a reason of its own, at the field it is about.
async fn reasons(c: &Cx) {
    let mut broken = version("v1", json!({}));
    let schema = &mut broken["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({"type": "object",
    "properties": {"r": {"type": "string"}, "d": {"type": "string"}, "s": {"type": "string"},
        "l": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 5,
            "x-kubernetes-validations": [{"rule": "self != 'no'"}]}}},
    "x-kubernetes-validations": [
        {"rule": "has(self.r)", "reason": "FieldValueRequired", "fieldPath": ".r", "message": "r is missing"},
        {"rule": "!has(self.d) || self.d != 'twice'", "reason": "FieldValueDuplicate", "fieldPath": ".d", "message": "d is there already"},
    ]});
    schema["x-kubernetes-validations"] = json!([{"rule": "self.metadata.name != 'root'", "message": "not this name"}]);
    let kind = c.define("reasons", "Reason", json!({"versions": [broken]})).await;
    for (name, spec, message, cause) in [
        (
            "a",
            json!({}),
            "spec.r: Required value: r is missing",
            json!({"reason": "FieldValueRequired", "field": "spec.r", "message": "Required value: r is missing"}),
        ),
        (
            "a",
            json!({"r": "", "d": "twice"}),
            "spec.d: Duplicate value",
            json!({"reason": "FieldValueDuplicate", "field": "spec.d"}),
        ),
        (
            "a",
            json!({"r": "", "l": ["yes", "no"]}),
            "spec.l[1]: Invalid value: \"no\": failed rule: self != 'no'",
            json!({"reason": "FieldValueInvalid", "field": "spec.l[1]", "message": "Invalid value: \"no\": failed rule: self != 'no'"}),
        ),
        (
            "root",
            json!({"r": ""}),
            "<nil>: Invalid value: not this name",
            json!({"reason": "FieldValueInvalid", "field": "<nil>", "message": "Invalid value: not this name"}),
        ),
    ] {
        let refused = c
            .post(&kind.path, kind.object(name, spec))
            .await
            .fails(422, "Invalid")
            .mentions(message);
        let came = refused.at("/details/causes/0");
        for (key, value) in cause.as_object().unwrap() {
            assert_eq!(&came[key], value, "{}", refused.came());
        }
    }
    c.make(
        &kind.path,
        kind.object("fine", json!({"r": "", "d": "once", "l": ["yes"]})),
    )
    .await;
}

async fn transitions(c: Cx) {
    let kind = c
        .define(
            "things",
            "Thing",
            with_rules(
                json!([{"rule": "!oldSelf.hasValue() || oldSelf.value().a <= self.a", "optionalOldSelf": true, "message": "a may not shrink"}]),
                json!({"a": {"type": "integer", "default": 0}}),
            ),
        )
        .await;
    c.make(&kind.path, kind.object("a", json!({"a": 5}))).await;
    c.merge(&kind.at("a"), json!({"spec": {"a": 4}}))
        .await
        .fails(422, "Invalid")
        .mentions("a may not shrink");
    c.merge(&kind.at("a"), json!({"spec": {"a": 6}})).await.is(200);
    let inside = json!({"l": {"type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 5, "items": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}});
    c.post(
        CRDS,
        definition(&kind.group, "others", "Other", with_rules(json!([]), inside)),
    )
    .await
    .fails(422, "Invalid")
    .mentions("oldSelf cannot be used on the uncorrelatable portion of the schema within ");
}

async fn numbers(c: Cx) {
    let kind = c
        .define_simple(
            "things",
            "Thing",
            json!({"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
        )
        .await;
    let body = format!(
        "{{\"apiVersion\": \"{}\", \"kind\": \"Thing\", \"metadata\": {{\"name\": \"a\"}}, \"spec\": {{\"free\": {{\"big\": 12345678901234567890, \
         \"one\": 1.0, \"thousand\": 1e3, \"zero\": -0.0, \"max\": 9223372036854775807, \"half\": 0.5}}}}}}",
        kind.api_version
    );
    let made = c
        .send(Ask::new("POST", &kind.path).bytes("application/json", body))
        .await
        .is(201);
    let text = made.text();
    for wanted in [
        "\"one\":1,",
        "\"thousand\":1000",
        "\"zero\":0",
        "\"max\":9223372036854775807",
        "\"half\":0.5",
    ] {
        assert!(
            text.contains(wanted) || text.contains(&wanted.replace(',', "}")),
            "expected {wanted}; came {text}"
        );
    }
    let big = made.at("/spec/free/big").as_f64().unwrap();
    assert!((big - 12_345_678_901_234_567_000.0).abs() < 10_000.0, "{big}");
    assert!(
        !text.contains("12345678901234567890"),
        "an integer beyond 64 bits becomes a float; came {text}"
    );
}
