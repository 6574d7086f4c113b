//! CustomResourceDefinitions: how they are accepted, served, changed and removed.

use crate::{
    check::{Check, must, should},
    client::Ask,
    cx::{CRDS, Cx, Kind, definition, is_established, version},
    webhook::Webhook,
};
use serde_json::{Value, json};
use std::path::PathBuf;

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "132",
            "a new definition gets its names, conditions, stored versions and defaults",
            accepted,
        ),
        must(
            "133",
            "a kind that is taken is not accepted and not served",
            kind_conflict,
        ),
        must(
            "135",
            "OCM's definitions are accepted and read back as they were sent",
            ocm,
        ),
        must(
            "140",
            "/status is apart from the rest; generation counts the rest",
            status,
        ),
        should(
            "141",
            "the scale subresource has its selector, and says when its path is missing",
            scale,
        ),
        must("142", "printer columns of every type", columns),
        must(
            "143",
            "several versions without conversion; a stored version cannot be removed",
            versions,
        ),
        must(
            "144",
            "webhook conversion goes both ways, and a webhook that cannot be reached is an error",
            webhook_conversion,
        )
        .called_back(),
        must(
            "145",
            "a definition with instances waits for them; creates are 403 meanwhile",
            deletion,
        ),
    ]
}

fn condition(crd: &Value, kind: &str) -> Value {
    let all = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["type"] == kind).unwrap_or_default()
}

async fn accepted(c: Cx) {
    let kind = c
        .define(
            "things",
            "Thing",
            json!({"names": {"plural": "things", "kind": "Thing", "shortNames": ["thg"], "categories": ["all"]}}),
        )
        .await;
    let crd = c.get(&kind.crd).await.is(200);
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["thg"], "categories": ["all"]});
    let crd = crd
        .has("/spec/names", names.clone())
        .has("/status/acceptedNames", names)
        .has("/status/storedVersions", json!(["v1"]));
    let crd = crd
        .has("/spec/conversion", json!({"strategy": "None"}))
        .has("/metadata/generation", 1)
        .lacks("/metadata/finalizers");
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        let it = condition(&crd.json, kind);
        assert_eq!(
            (&it["status"], &it["reason"], &it["message"]),
            (&json!("True"), &json!(reason), &json!(message))
        );
    }
    let fields = crd["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        fields
            .iter()
            .any(|it| it["manager"] == "kube-apiserver" && it["subresource"] == "status"),
        "{}",
        crd.came()
    );
}

async fn kind_conflict(c: Cx) {
    let one = c.define("things", "Thing", json!({})).await;
    let other = definition(
        &one.group,
        "others",
        "Thing",
        json!({"names": {"plural": "others", "kind": "Thing", "listKind": "OtherList"}}),
    );
    c.make(CRDS, other).await;
    let path = format!("{CRDS}/others.{}", one.group);
    let (crd, _) = c
        .until(&path, |it| !condition(&it.json, "NamesAccepted").is_null())
        .await;
    let it = condition(&crd.json, "NamesAccepted");
    assert_eq!(
        (&it["status"], &it["reason"], &it["message"]),
        (
            &json!("False"),
            &json!("KindConflict"),
            &json!("\"Thing\" is already in use")
        )
    );
    let it = condition(&crd.json, "Established");
    assert_eq!(
        (&it["status"], &it["reason"], &it["message"]),
        (
            &json!("False"),
            &json!("NotAccepted"),
            &json!("not all names are accepted")
        )
    );
    c.get(&format!("/apis/{}/v1/others", one.group)).await.is(404);
    c.get(&one.path).await.is(200);
    names(&c).await;
}

/// Every name of a kind may be taken by another of its group, and is free again with that.
async fn names(c: &Cx) {
    let group = format!("names.{}", c.group());
    let path = |plural: &str| format!("{CRDS}/{plural}.{group}");
    let make = async |plural: &str, names: Value| {
        let mut all = json!({"plural": plural});
        all.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
        let kind = names["kind"].as_str().unwrap();
        c.make(CRDS, definition(&group, plural, kind, json!({"names": all})))
            .await;
        c.until(&path(plural), |it| !condition(&it.json, "NamesAccepted").is_null())
            .await
            .0
    };
    make("things", json!({"kind": "Thing", "shortNames": ["thg"]})).await;
    for (plural, names, reason, taken, accepted) in [
        (
            "thing",
            json!({"kind": "A", "singular": "one"}),
            "PluralConflict",
            "thing",
            json!({"plural": "", "singular": "one", "kind": "A", "listKind": "AList"}),
        ),
        (
            "bs",
            json!({"kind": "B", "singular": "things"}),
            "SingularConflict",
            "things",
            json!({"plural": "bs", "kind": "B", "listKind": "BList"}),
        ),
        (
            "cs",
            json!({"kind": "C", "shortNames": ["thg", "free"]}),
            "ShortNamesConflict",
            "thg",
            json!({"plural": "cs", "singular": "c", "kind": "C", "listKind": "CList"}),
        ),
        (
            "ds",
            json!({"kind": "D", "listKind": "ThingList"}),
            "ListKindConflict",
            "ThingList",
            json!({"plural": "ds", "singular": "d", "kind": "D"}),
        ),
    ] {
        let crd = make(plural, names).await;
        let it = condition(&crd.json, "NamesAccepted");
        assert_eq!(
            (&it["status"], &it["reason"], &it["message"]),
            (
                &json!("False"),
                &json!(reason),
                &json!(format!("\"{taken}\" is already in use"))
            ),
            "{plural}"
        );
        assert_eq!(crd.at("/status/acceptedNames"), &accepted, "{plural}");
        assert_eq!(condition(&crd.json, "Established")["status"], "False");
    }
    c.delete(&path("things")).await.is(200);
    for plural in ["thing", "bs", "cs", "ds"] {
        c.until(&path(plural), |it| is_established(&it.json)).await;
    }
}

/// Our copy of OCM's definitions; their groups are real, so a cluster that has OCM is left alone.
async fn ocm(c: Cx) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let mut files = Vec::new();
    let mut dirs = vec![dir];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|it| it == "yaml") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 10, "{} files", files.len());
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        let path = format!("{CRDS}/{}", crd["metadata"]["name"].as_str().unwrap());
        if c.get(&path).await.code == 200 {
            continue;
        }
        let made = c.make(CRDS, crd.clone()).await;
        let mut sent = crd["spec"].clone();
        // What the server fills in.
        for key in ["conversion", "names"] {
            sent[key] = made["spec"][key].clone();
        }
        sent.as_object_mut().unwrap().remove("preserveUnknownFields");
        let mut came = made["spec"].clone();
        came.as_object_mut().unwrap().remove("preserveUnknownFields");
        assert_eq!(came, sent, "{}", file.display());
        c.until(&path, |it| is_established(&it.json)).await;
    }
}

async fn status(c: Cx) {
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    let mut object = kind.object("a", json!({"a": "1"}));
    object["status"] = json!({"x": 1});
    let made = c
        .make(&kind.path, object.clone())
        .await
        .lacks("/status")
        .has("/metadata/generation", 1);
    let status = format!("{}/status", kind.at("a"));
    let mut whole = made.json.clone();
    whole["status"] = json!({"x": 2});
    whole["spec"]["a"] = "2".into();
    c.put(&status, &whole)
        .await
        .is(200)
        .has("/status/x", 2)
        .has("/spec/a", "1")
        .has("/metadata/generation", 1);
    c.merge(&kind.at("a"), json!({"status": {"x": 3}}))
        .await
        .is(200)
        .has("/status/x", 2)
        .has("/metadata/generation", 1);
    c.merge(&kind.at("a"), json!({"spec": {"a": "3"}}))
        .await
        .is(200)
        .has("/status/x", 2)
        .has("/metadata/generation", 2);
    c.get(&status).await.is(200).has("/kind", "Thing");
    let mut without = version("v1", json!({}));
    without.as_object_mut().unwrap().remove("subresources");
    let plain = c.define("plains", "Plain", json!({"versions": [without]})).await;
    let mut object = plain.object("a", json!({}));
    object["status"] = json!({"x": 1});
    c.make(&plain.path, object).await.has("/status/x", 1);
    c.get(&format!("{}/status", plain.at("a"))).await.is(404);
}

async fn scale(c: Cx) {
    let mut it = version("v1", json!({"replicas": {"type": "integer"}}));
    it["subresources"]["scale"] = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"});
    let kind = c.define("things", "Thing", json!({"versions": [it]})).await;
    c.make(&kind.path, kind.object("a", json!({"replicas": 2}))).await;
    c.merge(
        &format!("{}/status", kind.at("a")),
        json!({"status": {"replicas": 1, "selector": "a=b"}}),
    )
    .await
    .is(200);
    let path = format!("{}/scale", kind.at("a"));
    c.get(&path)
        .await
        .is(200)
        .has("/kind", "Scale")
        .has("/spec/replicas", 2)
        .has("/status/replicas", 1)
        .has("/status/selector", "a=b");
    // A Scale has the revision of its object.
    let first = c.get(&path).await.is(200);
    assert_eq!(first.revision(), c.get(&kind.at("a")).await.revision());
    let mut scale = first.json.clone();
    scale["spec"]["replicas"] = 5.into();
    let put = c.put(&path, &scale).await.is(200).has("/spec/replicas", 5);
    assert!(put.revision() > first.revision());
    let stale = c
        .put(&path, &scale)
        .await
        .fails(409, "Conflict")
        .mentions("the object has been modified; please apply your changes to the latest version and try again");
    assert_eq!(
        stale.at("/details"),
        &json!({"name": "a", "group": kind.group, "kind": "things"})
    );
    c.merge(
        &path,
        json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 9}}),
    )
    .await
    .fails(409, "Conflict");
    scale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    c.put(&path, &scale).await.is(200);
    scale["metadata"]["uid"] = "1234".into();
    c.put(&path, &scale)
        .await
        .fails(409, "Conflict")
        .mentions("Precondition failed: UID in precondition: 1234, UID in object meta: ");
    c.make(&kind.path, kind.object("b", json!({}))).await;
    let path = format!("{}/scale", kind.at("b"));
    c.get(&path)
        .await
        .is(500)
        .mentions("the spec replicas field \".spec.replicas\" does not exist");
    c.merge(&path, json!({"spec": {"replicas": 3}}))
        .await
        .is(200)
        .has("/spec/replicas", 3);
    // Without a path there is no selector: `kubectl scale` reads what it finds as one.
    let mut it = version("v1", json!({"replicas": {"type": "integer"}}));
    it["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let kind = c.define("others", "Other", json!({"versions": [it]})).await;
    c.make(&kind.path, kind.object("a", json!({"replicas": 2}))).await;
    c.merge(&format!("{}/scale", kind.at("a")), json!({"spec": {"replicas": 3}}))
        .await
        .is(200)
        .has("/status", json!({"replicas": 0}));
}

async fn columns(c: Cx) {
    let mut it = version(
        "v1",
        json!({"s": {"type": "string"}, "n": {"type": "number"}, "b": {"type": "boolean"}, "d": {"type": "string"}}),
    );
    it["additionalPrinterColumns"] = json!([
        {"name": "Text", "type": "string", "jsonPath": ".spec.s"},
        {"name": "Number", "type": "integer", "jsonPath": ".spec.n", "priority": 1},
        {"name": "Flag", "type": "boolean", "jsonPath": ".spec.b"},
        {"name": "Since", "type": "date", "jsonPath": ".spec.d"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Whether it is ready."},
    ]);
    let kind = c.define("things", "Thing", json!({"versions": [it]})).await;
    let then = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(5))
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    c.make(
        &kind.path,
        kind.object("a", json!({"s": "x", "n": 2.7, "b": true, "d": then})),
    )
    .await;
    c.merge(
        &format!("{}/status", kind.at("a")),
        json!({"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}}),
    )
    .await
    .is(200);
    c.make(&kind.path, kind.object("b", json!({}))).await;
    let ask = Ask::get(&kind.path).accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = c.send(ask).await.is(200);
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Name", "Text", "Number", "Flag", "Since", "Ready"]);
    assert_eq!(table.at("/columnDefinitions/2/priority"), 1);
    assert_eq!(
        table.at("/columnDefinitions/1/description"),
        "Custom resource definition column (in JSONPath format): .spec.s"
    );
    assert_eq!(table.at("/columnDefinitions/5/description"), "Whether it is ready.");
    assert_eq!(table.at("/rows/0/cells"), &json!(["a", "x", 2, true, "5h", "True"]));
    assert_eq!(table.at("/rows/1/cells"), &json!(["b", null, null, null, null, null]));
    odd_cells(&c).await;
}

/// Values that are not of their column's type, and paths that find several or none.
async fn odd_cells(c: &Cx) {
    let free = json!({"x-kubernetes-preserve-unknown-fields": true});
    let mut it = version("v1", json!({"s": free, "b": free, "d": free, "l": free}));
    it["additionalPrinterColumns"] = [
        ("string", ".spec.s"),
        ("boolean", ".spec.b"),
        ("date", ".spec.d"),
        ("integer", ".spec.s"),
        ("number", ".spec.s"),
        ("string", ".spec.l[*].n"),
        ("string", ".spec.l[0].n"),
        ("string", ".spec.l[7].n"),
    ]
    .iter()
    .enumerate()
    .map(|(at, (kind, path))| json!({"name": format!("C{at}"), "type": kind, "jsonPath": path}))
    .collect();
    let kind = c.define("odds", "Odd", json!({"versions": [it]})).await;
    let rows = [
        (
            json!({"s": {"a": [1, "x"]}, "b": "yes", "d": "nodate", "l": [{"n": "a"}, {"n": "b"}]}),
            json!(["r0", "{\"a\":[1,\"x\"]}", null, "<invalid>", null, null, "a", "a", null]),
        ),
        (
            json!({"s": [1, 2], "b": true, "d": 5, "l": []}),
            json!(["r1", "[1,2]", true, null, null, null, null, null, null]),
        ),
        (
            json!({"s": 7.5, "b": 1, "d": "2001-01-01", "l": "x"}),
            json!(["r2", "7.5", null, "<invalid>", 7, 7.5, null, null, null]),
        ),
        (
            json!({"s": true, "l": [{"n": 1}, {"m": 2}]}),
            json!(["r3", "true", null, null, null, null, "1", "1", null]),
        ),
    ];
    for (at, (spec, _)) in rows.iter().enumerate() {
        c.make(&kind.path, kind.object(&format!("r{at}"), spec.clone())).await;
    }
    let ask = Ask::get(&kind.path).accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = c.send(ask).await.is(200);
    for (at, (_, cells)) in rows.iter().enumerate() {
        assert_eq!(table.at(&format!("/rows/{at}/cells")), cells);
    }
}

async fn versions(c: Cx) {
    let properties = || json!({"a": {"type": "string"}});
    let kind = c
        .define("things", "Thing", json!({"versions": [version("v1", properties())]}))
        .await;
    c.make(&kind.path, kind.object("a", json!({"a": "b"}))).await;
    let mut v1 = version("v1", properties());
    v1["storage"] = false.into();
    let both = json!({"spec": {"versions": [v1, version("v2", properties())]}});
    c.merge(&kind.crd, both).await.is(200);
    let other = kind.path.replace("/v1/", "/v2/");
    c.until(&other, |it| it.code == 200).await;
    c.until(&kind.crd, |it| it.at("/status/storedVersions") == &json!(["v1", "v2"]))
        .await;
    let two = c
        .get(&format!("{other}/a"))
        .await
        .is(200)
        .has("/apiVersion", format!("{}/v2", kind.group))
        .has("/spec/a", "b");
    c.put(&format!("{other}/a"), &two.json).await.is(200);
    c.get(&kind.at("a"))
        .await
        .is(200)
        .has("/apiVersion", kind.api_version.clone());
    let only = json!({"spec": {"versions": [version("v2", properties())]}});
    c.merge(&kind.crd, only.clone())
        .await
        .fails(422, "Invalid")
        .mentions("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version");
    let mut crd = c.get(&kind.crd).await.json;
    crd["status"]["storedVersions"] = json!(["v2"]);
    c.put(&format!("{}/status", kind.crd), &crd).await.is(200);
    c.merge(&kind.crd, only).await.is(200);
    c.until(&kind.path, |it| it.code == 404).await;
    let group = c.get(&format!("/apis/{}", kind.group)).await.is(200);
    assert_eq!(group.at("/preferredVersion/version"), "v2");
}

/// Nobody answers at this address.
const NOBODY: &str = "https://127.0.0.1:1/convert";

/// `v1` has `spec.a`, `v2` has `spec.b`.
fn convert(mut review: Value) -> Value {
    let mut request = review["request"].take();
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default().to_owned();
    let (from, to) = if wanted.ends_with("/v2") {
        ("a", "b")
    } else {
        ("b", "a")
    };
    let mut objects = request["objects"].take();
    for object in objects.as_array_mut().into_iter().flatten() {
        if object["spec"][from] == "fail" {
            return json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": {"uid": request["uid"],
                "convertedObjects": [], "result": {"status": "Failed", "message": "not today"}}});
        }
        object["apiVersion"] = wanted.clone().into();
        if let Some(value) = object["spec"].as_object_mut().and_then(|it| it.remove(from)) {
            object["spec"][to] = value;
        }
        // Not its business: of the metadata only labels and annotations are taken.
        object["metadata"]["generation"] = 99.into();
        object["metadata"]["finalizers"] = json!(["ex.io/tampered"]);
        object["metadata"]["resourceVersion"] = "1".into();
        object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
        object["metadata"]["labels"] = json!({"seen": if to == "b" { "v2" } else { "v1" }});
        // And these are who it is.
        match object["spec"][to].as_str() {
            Some("uid") => object["metadata"]["uid"] = "1234".into(),
            Some("name") => object["metadata"]["name"] = "other".into(),
            _ => {}
        }
    }
    if objects[0]["spec"][to] == "none" {
        objects = json!([]);
    }
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}})
}

/// What the webhook was sent of the object that is asked for in `v2`.
fn reviewed(hook: &Webhook, kind: &Kind, made: &Value) {
    let wanted = format!("{}/v2", kind.group);
    let all = hook.take();
    let asked = all
        .iter()
        .find(|it| it.review["request"]["desiredAPIVersion"] == wanted);
    let asked = asked.unwrap_or_else(|| panic!("nobody asked for v2: {all:?}"));
    assert_eq!(asked.path, "/convert?timeout=30s");
    let mut review = asked.review.clone();
    // The revision is that of a write or of a read.
    let mut made = made.clone();
    for object in [&mut review["request"]["objects"][0], &mut made] {
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    }
    let uid = review["request"]["uid"].take();
    assert!(uid.as_str().is_some_and(|it| it.len() == 36), "{uid}");
    assert_eq!(
        review,
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": null, "desiredAPIVersion": wanted, "objects": [made]},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}}})
    );
}

async fn webhook_conversion(c: Cx) {
    let hook = Webhook::start(convert).await;
    let mut v2 = version("v2", json!({"b": {"type": "string"}}));
    v2["storage"] = false.into();
    let webhook = |url: &str| {
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": hook.bundle()}}})
    };
    let versions = json!([version("v1", json!({"a": {"type": "string"}})), v2]);
    let kind = c
        .define(
            "things",
            "Thing",
            json!({"versions": versions, "conversion": webhook(&hook.url("/convert"))}),
        )
        .await;
    let bad = definition(
        &kind.group,
        "others",
        "Other",
        json!({"conversion": {"strategy": "Webhook"}}),
    );
    c.post(CRDS, bad).await.fails(422, "Invalid").mentions("Required value");
    let made = c.make(&kind.path, kind.object("a", json!({"a": "x"}))).await;
    c.get(&kind.at("a")).await.is(200).has("/spec", json!({"a": "x"}));
    let other = kind.path.replace("/v1/", "/v2/");
    let two = c
        .get(&format!("{other}/a"))
        .await
        .is(200)
        .has("/spec", json!({"b": "x"}))
        .has("/metadata/generation", 1)
        .has("/metadata/uid", made.uid())
        .lacks("/metadata/finalizers")
        .has("/metadata/labels", json!({"seen": "v2"}));
    for key in ["resourceVersion", "creationTimestamp"] {
        assert_eq!(two["metadata"][key], made["metadata"][key]);
    }
    reviewed(&hook, &kind, &made.json);
    let list = c.get(&other).await.is(200);
    assert_eq!(
        (list.names(), list.at("/items/0/spec"), list.at("/items/0/apiVersion")),
        (
            vec!["a".to_owned()],
            &json!({"b": "x"}),
            &json!(format!("{}/v2", kind.group))
        )
    );
    let mut watch = c
        .watch(&format!("{other}?watch=1&resourceVersion={}", list.revision()))
        .await;
    let mut changed = two.json.clone();
    changed["spec"]["b"] = "y".into();
    c.put(&format!("{other}/a"), &changed)
        .await
        .is(200)
        .has("/spec", json!({"b": "y"}));
    c.get(&kind.at("a")).await.is(200).has("/spec", json!({"a": "y"}));
    c.merge(&kind.at("a"), json!({"spec": {"a": "z"}})).await.is(200);
    for value in ["y", "z"] {
        let (event, object) = watch.next().await;
        assert_eq!((event.as_str(), &object["spec"]), ("MODIFIED", &json!({"b": value})));
        assert_eq!(object["metadata"]["uid"], made["metadata"]["uid"]);
    }
    for (value, said) in [
        ("uid", "must have the same UID: "),
        ("name", "must have the same name: "),
        ("none", "returned 0 objects, expected 1"),
    ] {
        c.make(&kind.path, kind.object(value, json!({"a": value}))).await;
        c.get(&format!("{other}/{value}")).await.is(500).mentions(said);
    }
    c.make(&kind.path, kind.object("b", json!({"a": "fail"}))).await;
    let reply = c.get(&format!("{other}/b")).await.is(500);
    reply.mentions("conversion webhook for").mentions("failed: not today");
    c.merge(&kind.crd, json!({"spec": {"conversion": webhook(NOBODY)}}))
        .await
        .is(200);
    let (reply, _) = c.until(&format!("{other}/a"), |it| it.code != 200).await;
    assert!(reply.code >= 429 && reply["kind"] == "Status", "{}", reply.came());
}

async fn deletion(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let mut object = kind.object("a", json!({}));
    object["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    c.make(&kind.path, object).await;
    c.make(&kind.path, kind.object("b", json!({}))).await;
    let before = c.get(&kind.crd).await.is(200);
    let name = before["metadata"]["name"].as_str().unwrap();
    let mut watch = c
        .watch(&format!(
            "{CRDS}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={}",
            before.revision()
        ))
        .await;
    c.delete(&kind.crd).await.is(200);
    for (reason, message) in [
        (
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        ),
        ("InstanceDeletionInProgress", "CustomResource deletion is in progress"),
    ] {
        let (event, crd) = watch.next().await;
        let it = condition(&crd, "Terminating");
        assert_eq!(
            (event.as_str(), &it["status"], &it["reason"], &it["message"]),
            ("MODIFIED", &json!("True"), &json!(reason), &json!(message))
        );
        assert_eq!(
            crd["metadata"]["finalizers"],
            json!(["customresourcecleanup.apiextensions.k8s.io"])
        );
    }
    c.until_gone(&kind.at("b")).await;
    let late = kind.object("late", json!({}));
    c.apply(&kind.at("late"), "check", late)
        .await
        .fails(403, "Forbidden")
        .mentions("create not allowed while custom resource definition is terminating");
    let labelled = json!({"metadata": {"labels": {"still": "there"}}});
    c.merge(&kind.at("a"), labelled)
        .await
        .is(200)
        .has("/metadata/labels/still", "there");
    c.post(&kind.path, kind.object("late", json!({})))
        .await
        .fails(403, "Forbidden")
        .says(&format!(
            "things.{} \"late\" is forbidden: create not allowed while custom resource definition is terminating",
            kind.group
        ));
    let held = c.get(&kind.at("a")).await.is(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    c.merge(&kind.at("a"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
    c.until_gone(&kind.crd).await;
    loop {
        if watch.next().await.0 == "DELETED" {
            break;
        }
    }
    c.until(&kind.path, |it| it.code == 404).await;
    c.make(CRDS, definition(&kind.group, "things", "Thing", json!({})))
        .await;
    let (list, _) = c.until(&kind.path, |it| it.code == 200).await;
    assert_eq!(list["items"], json!([]), "a new definition has a fresh start");
}
