use super::{kinds, *};
use crate::status::Status;

/// A cluster with one object, to which managers apply one after another.
struct Story {
    schema: Schema,
    api_version: &'static str,
    built_in: bool,
    live: Option<Value>,
    clock: i64,
}

impl Story {
    fn of(schema: Schema, api_version: &'static str, built_in: bool) -> Self {
        Self {
            schema,
            api_version,
            built_in,
            live: None,
            clock: 0,
        }
    }

    fn config_map() -> Self {
        Self::of(kinds::config_map(), "v1", true)
    }

    fn deployment() -> Self {
        Self::of(kinds::deployment(), "apps/v1", true)
    }

    fn custom() -> Self {
        Self::of(kinds::custom(), "ex.io/v1", false)
    }

    fn try_apply(
        &mut self,
        manager: &str,
        config: Value,
        force: bool,
        change: impl Fn(&mut Ctx<'_>),
    ) -> Result<Value, Status> {
        self.clock += 1;
        let mut config = config;
        config["apiVersion"] = json!(self.api_version);
        config["kind"] = json!("Kind");
        let mut ctx = Ctx {
            now: at(self.clock),
            ..ctx(manager, &self.schema, self.api_version, self.built_in)
        };
        change(&mut ctx);
        let result = apply(self.live.as_ref(), &config, &ctx, force)?;
        self.live = Some(result.clone());
        Ok(result)
    }

    fn apply(&mut self, manager: &str, config: Value) -> Value {
        self.try_apply(manager, config, false, |_| ()).unwrap()
    }

    fn update(&mut self, manager: &str, change: impl Fn(&mut Value)) -> Value {
        self.clock += 1;
        let mut new = self.live.clone().unwrap_or_else(|| json!({"metadata": {}}));
        change(&mut new);
        update(
            self.live.as_ref(),
            &mut new,
            &Ctx {
                now: at(self.clock),
                ..ctx(manager, &self.schema, self.api_version, self.built_in)
            },
        );
        self.live = Some(new.clone());
        new
    }
}

fn data(object: &Value) -> Value {
    object["data"].clone()
}

#[test]
fn applying_twice_changes_nothing_at_all() {
    let mut story = Story::deployment();
    let config = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"replicas": 2, "template": {"spec": {"containers": [
        {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "args": ["a", "b"]},
    ]}}}});
    let first = story.apply("m", config.clone());
    assert_eq!(story.apply("m", config), first);
}

#[test]
fn a_field_that_its_sole_owner_drops_is_removed() {
    let mut story = Story::config_map();
    story.apply("m", json!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "1"}}));
    let result = story.apply("m", json!({"metadata": {"name": "a"}, "data": {"a": "1"}}));
    assert_eq!(data(&result), json!({"a": "1"}));
    let result = story.apply("m", json!({"metadata": {"name": "a"}}));
    assert_eq!(result.get("data"), None);
    assert_eq!(owners(&result), Vec::<String>::new());
    assert_eq!(result["metadata"]["name"], "a");
}

#[test]
fn a_field_with_another_owner_stays_when_one_drops_it() {
    let mut story = Story::config_map();
    story.apply("m1", json!({"data": {"a": "1", "b": "1"}}));
    let shared = story.apply("m2", json!({"data": {"a": "1"}}));
    assert_eq!(
        owners(&shared),
        [
            r#"m2 Apply v1 {"f:data":{"f:a":{}}}"#,
            r#"m1 Apply v1 {"f:data":{"f:a":{},"f:b":{}}}"#
        ]
    );
    assert_eq!(
        shared["metadata"]["managedFields"][0].get("time"),
        None,
        "an apply that only takes ownership has no time"
    );
    let result = story.apply("m1", json!({}));
    assert_eq!(data(&result), json!({"a": "1"}));
    let result = story.apply("m2", json!({}));
    assert_eq!(result.get("data"), None);
}

#[test]
fn fields_that_the_server_or_nobody_set_survive_an_apply() {
    let mut story = Story::deployment();
    story.apply(
        "m",
        json!({"spec": {"replicas": 1, "strategy": {"type": "RollingUpdate"}}}),
    );
    let live = story.live.as_mut().unwrap();
    live["spec"]["paused"] = json!(false);
    live["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": "25%"});
    let result = story.apply("m", json!({"spec": {"strategy": {"type": "RollingUpdate"}}}));
    assert_eq!(
        result["spec"],
        json!({"paused": false, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}})
    );
    // A struct goes with the last one who owns something in it, and takes its defaults along.
    let result = story.apply("m", json!({"spec": {"replicas": 1}}));
    assert_eq!(result["spec"], json!({"paused": false, "replicas": 1}));
}

#[test]
fn conflicts_name_every_manager_and_field() {
    let mut story = Story::config_map();
    story.apply("m1", json!({"data": {"a": "1"}}));
    let error = story
        .try_apply("m2", json!({"data": {"a": "2"}}), false, |_| ())
        .unwrap_err();
    assert_eq!((error.code, error.reason), (409, "Conflict"));
    assert_eq!(
        error.message,
        r#"Apply failed with 1 conflict: conflict with "m1": .data.a"#
    );
    let cause =
        json!({"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"m1\"", "field": ".data.a"}]});
    assert_eq!(error.details, Some(Box::new(cause)));

    story.update("u", |it| it["data"]["b"] = json!("1"));
    let error = story
        .try_apply("m2", json!({"data": {"a": "2", "b": "2"}}), false, |_| ())
        .unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\nconflicts with \"u\" using v1:\n- .data.b"
    );
    let result = story
        .try_apply("m2", json!({"data": {"a": "2", "b": "2"}}), true, |_| ())
        .unwrap();
    assert_eq!(owners(&result), [r#"m2 Apply v1 {"f:data":{"f:a":{},"f:b":{}}}"#]);
    assert_eq!(data(&result), json!({"a": "2", "b": "2"}));
}

#[test]
fn conflict_paths_name_list_items_by_their_keys() {
    let mut story = Story::custom();
    let first = json!({"spec": {"mp": [{"k": "k1", "v": "1"}], "at": ["x"], "am": {"a": "1"}}});
    story
        .try_apply("m1", first, false, |ctx| ctx.subresource = "status")
        .unwrap();
    let other = json!({"spec": {"mp": [{"k": "k1", "v": "2"}], "at": ["y"], "am": {"b": "1"}}});
    let error = story.try_apply("m2", other, false, |_| ()).unwrap_err();
    let title = r#"conflicts with "m1" with subresource "status":"#;
    assert_eq!(
        error.message,
        format!("Apply failed with 3 conflicts: {title}\n- .spec.am\n- .spec.at\n- .spec.mp[k=\"k1\",p=\"TCP\"].v")
    );
}

#[test]
fn lists_merge_by_key_as_sets_or_whole() {
    let mut story = Story::custom();
    story.apply(
        "m1",
        json!({"spec": {"mp": [{"k": "a", "v": "1"}, {"k": "b"}], "st": ["x", "y"], "at": ["p"], "m": {"a": "1"}}}),
    );
    let result = story.apply(
        "m2",
        json!({"spec": {"mp": [{"k": "c"}, {"k": "b", "p": "UDP"}], "st": ["z", "y"], "m": {"b": "1"}}}),
    );
    let expected = json!({
        "mp": [{"k": "a", "v": "1"}, {"k": "b"}, {"k": "c"}, {"k": "b", "p": "UDP"}],
        "st": ["x", "z", "y"], "at": ["p"], "m": {"a": "1", "b": "1"},
    });
    assert_eq!(result["spec"], expected);
    let result = story.apply("m1", json!({"spec": {"mp": [{"k": "b"}], "st": []}}));
    assert_eq!(
        result["spec"],
        json!({"mp": [{"k": "b"}, {"k": "c"}, {"k": "b", "p": "UDP"}], "st": ["z", "y"], "m": {"b": "1"}})
    );
}

#[test]
fn shared_items_follow_the_order_of_the_configuration() {
    let names = |spec: &Value| {
        spec["st"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect::<String>()
    };
    let table = [
        ("abc", "bz", "abcz"),
        ("abc", "cza", "bcza"),
        ("abc", "xyz", "abcxyz"),
        ("abc", "zabc", "zabc"),
        ("abcd", "daz", "bcdaz"),
        // An order alone is no change.
        ("abcd", "da", "abcd"),
        ("", "ab", "ab"),
    ];
    for (live, config, expected) in table {
        let list = |it: &str| json!({"spec": {"st": it.chars().map(String::from).collect::<Vec<_>>()}});
        let mut story = Story::custom();
        story.apply("m1", list(live));
        assert_eq!(
            names(&story.apply("m2", list(config))["spec"]),
            expected,
            "{live} + {config}"
        );
    }
}

#[test]
fn an_apply_drops_status_and_a_status_apply_drops_spec() {
    let mut story = Story::custom();
    let both =
        || json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"d": "1"}, "status": {"phase": "Up"}});
    let result = story
        .try_apply("m", both(), false, |ctx| ctx.reset_fields = &[&["status"]])
        .unwrap();
    // Who makes an object resets its status, which nobody owns by making it.
    assert_eq!(
        owners(&result),
        [r#"m Apply ex.io/v1 {"f:metadata":{"f:labels":{"f:x":{}}},"f:spec":{"f:d":{}}}"#]
    );
    let mut other = both();
    other["spec"]["d"] = json!("2");
    other["status"]["phase"] = json!("Going");
    let to_status = |ctx: &mut Ctx<'_>| {
        ctx.subresource = "status";
        ctx.reset_fields = &[&["spec"], &["metadata"]];
    };
    let again =
        json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"d": "1"}, "status": {"phase": "Down"}});
    let result = story
        .try_apply("m", again, false, |ctx| ctx.reset_fields = &[&["status"]])
        .unwrap();
    assert_eq!(result["status"], json!({"phase": "Up"}));
    let result = story.try_apply("s", other, false, to_status).unwrap();
    assert_eq!(
        (&result["spec"], &result["status"], &result["metadata"]["name"]),
        (&json!({"d": "1"}), &json!({"phase": "Going"}), &json!("a"))
    );
    assert_eq!(
        owners(&result),
        [
            r#"m Apply ex.io/v1 {"f:metadata":{"f:labels":{"f:x":{}}},"f:spec":{"f:d":{}}}"#,
            r#"s Apply ex.io/v1/status {"f:status":{"f:phase":{}}}"#
        ]
    );
}

#[test]
fn a_configuration_that_the_schema_does_not_know_is_refused() {
    let table = [
        (
            json!({"metadata": {"name": "fv"}, "foo": 1}),
            ".foo: field not declared in schema",
        ),
        (
            json!({"metadata": {"name": "fv"}, "spec": {"mp": [{"k": "side"}, {"k": "side", "v": "1"}]}}),
            ".spec.mp: duplicate entries for key [k=\"side\",p=\"TCP\"]",
        ),
        (
            json!({"metadata": {"name": "fv"}, "spec": {"mp": [{"k": "a", "x": 1}]}}),
            ".spec.mp[k=\"a\",p=\"TCP\"].x: field not declared in schema",
        ),
        (
            json!({"metadata": {"name": "fv"}, "spec": {"st": ["a", "a"], "x": 1}}),
            "errors:\n  .spec.st: duplicate entries for key [=\"a\"]\n  .spec.x: field not declared in schema",
        ),
        (
            json!({"metadata": {"name": "fv"}, "spec": {"d": 5}}),
            ".spec.d: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            json!({"metadata": {"name": "fv"}, "spec": {"mp": {"a": "b"}}}),
            ".spec.mp: expected list, got &{map[a:b]}",
        ),
        (
            json!({"metadata": {"name": "fv", "labels": {"a": true}}}),
            ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:true}",
        ),
        (
            json!({"metadata": {"name": "fv"}, "spec": [1, "x"]}),
            ".spec: expected map, got &{[1 x]}",
        ),
    ];
    for (config, expected) in table {
        let error = Story::custom().try_apply("m", config, false, |_| ()).unwrap_err();
        assert_eq!((error.code, error.reason), (500, ""));
        assert_eq!(
            error.message,
            format!("failed to create typed patch object (/fv; ex.io/v1, Kind=Kind): {expected}")
        );
    }
    let error = Story::config_map()
        .try_apply("m", json!({"metadata": {"name": "fv"}, "foo": 1}), false, |_| ())
        .unwrap_err();
    assert!(
        error
            .message
            .starts_with("failed to create typed patch object (/fv; /v1, Kind=Kind): "),
        "{}",
        error.message
    );
    let error = Story::config_map()
        .try_apply("m", json!({"metadata": {"managedFields": []}}), false, |_| ())
        .unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (400, "metadata.managedFields must be nil")
    );
}

#[test]
fn an_untracked_object_gives_its_content_to_before_first_apply() {
    let mut story = Story::config_map();
    story.live = Some(json!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "1"}}));
    let error = story
        .try_apply("m", json!({"data": {"a": "2"}}), false, |_| ())
        .unwrap_err();
    assert_eq!(
        error.message,
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a"#
    );
    let result = story.try_apply("m", json!({"data": {"a": "2"}}), true, |_| ()).unwrap();
    assert_eq!(
        owners(&result),
        [
            r#"m Apply v1 {"f:data":{"f:a":{}}}"#,
            r#"before-first-apply Update v1 {"f:data":{".":{},"f:b":{}}}"#
        ]
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client_side() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut story = Story::config_map();
    story.update("kubectl-client-side-apply", |it| {
        let last = json!({"apiVersion": "v1", "kind": "Kind", "metadata": {"annotations": {}, "name": "a"}, "data": {"a": "1", "b": "1"}});
        *it = json!({"metadata": {"name": "a", "annotations": {annotation: format!("{last}\n")}}, "data": {"a": "1", "b": "1"}});
    });
    let config = || json!({"metadata": {"name": "a"}, "data": {"a": "2", "b": "1"}});
    assert!(
        story.try_apply("someone", config(), false, |_| ()).is_err(),
        "only kubectl takes over"
    );
    let result = story.apply("kubectl", config());
    assert_eq!(data(&result), json!({"a": "2", "b": "1"}));
    let renewed =
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"2\",\"b\":\"1\"},\"kind\":\"Kind\",\"metadata\":{\"name\":\"a\"}}\n";
    assert_eq!(result["metadata"]["annotations"][annotation], renewed);

    // A field that someone changed since is a conflict as ever.
    story.update("hand", |it| it["data"]["a"] = json!("9"));
    let error = story.try_apply("kubectl", config(), false, |_| ()).unwrap_err();
    assert_eq!(
        error.message,
        r#"Apply failed with 1 conflict: conflict with "hand" using v1: .data.a"#
    );
}

#[test]
fn scale_is_recorded_with_the_version_of_the_parent() {
    let mut story = Story::deployment();
    story.apply("m", json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}));
    let parent = story.live.clone().unwrap();
    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 5}});
    let config = scale_config(&parent, &scale, ".spec.replicas");
    assert_eq!(config["spec"], json!({"replicas": 5}));
    assert!(
        story
            .try_apply("hpa", config.clone(), false, |ctx| ctx.subresource = "scale")
            .is_err()
    );
    let result = story
        .try_apply("hpa", config, true, |ctx| ctx.subresource = "scale")
        .unwrap();
    assert_eq!(
        owners(&result),
        [r#"hpa Apply apps/v1/scale {"f:spec":{"f:replicas":{}}}"#]
    );
    assert_eq!(result["spec"]["replicas"], 5);
}

#[test]
fn an_explicit_null_is_owned_and_changes_no_container() {
    let mut story = Story::custom();
    story.apply("m1", json!({"spec": {"m": {"a": "1"}, "d": "1"}}));
    let result = story.apply("m2", json!({"spec": {"m": null}}));
    assert_eq!(result["spec"], json!({"m": {"a": "1"}, "d": "1"}));
    assert_eq!(owners(&result)[0], r#"m2 Apply ex.io/v1 {"f:spec":{"f:m":{}}}"#);
}
