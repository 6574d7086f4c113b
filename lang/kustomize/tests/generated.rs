//! Folders that dice wrote are built as kustomize builds them: patches of workloads above all, whose lists are merged
//! by keys that may be missing, doubled or null. Only where `KUSTOMIZE_ORACLE` names the program to ask;
//! `KUSTOMIZE_CASES` and `KUSTOMIZE_SEED` say how many and which.

use std::{fs, path::Path, process::Command};

use kustomize::{KustomizeFiles, build};
use serde_json::{Map, Value, json};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }

    /// A field that is there seldom, or always, or null.
    fn maybe(&mut self, map: &mut Map<String, Value>, field: &str, make: impl FnOnce(&mut Dice) -> Value) {
        match self.roll(12) {
            0..=4 => {}
            5 => {
                map.insert(field.to_owned(), Value::Null);
            }
            _ => {
                let made = make(self);
                map.insert(field.to_owned(), made);
            }
        }
    }

    fn list(&mut self, patch: bool, mut make: impl FnMut(&mut Dice) -> Value) -> Value {
        let mut items: Vec<Value> = (0..self.roll(4)).map(|_| make(self)).collect();
        if patch && self.roll(12) == 0 {
            items.push(json!({"$patch": self.one(&["replace", "delete", "merge"])}));
        }
        Value::Array(items)
    }

    fn map(&mut self, patch: bool) -> Value {
        let mut map = Map::new();
        for _ in 0..self.roll(4) {
            let value = match self.roll(8) {
                0 if patch => Value::Null,
                1 => json!(self.roll(100)),
                2 => json!(self.one(&["yes", "1", "true", "null", "1.5", "", "0x1f", "12:30"])),
                _ => json!(self.one(&["a", "b c", "x: y", "# no", "- a"])),
            };
            map.insert(self.one(&["app", "tier", "example.com/x", "team"]).to_owned(), value);
        }
        self.directive(&mut map, patch);
        Value::Object(map)
    }

    fn directive(&mut self, map: &mut Map<String, Value>, patch: bool) {
        if patch && self.roll(14) == 0 {
            map.insert("$patch".to_owned(), json!(self.one(&["replace", "delete", "merge"])));
        }
    }

    fn container(&mut self, patch: bool) -> Value {
        let mut it = Map::new();
        if self.roll(25) > 0 {
            it.insert("name".to_owned(), json!(self.one(&["web", "side", "db"])));
        }
        self.maybe(&mut it, "image", |dice| {
            json!(dice.one(&["nginx", "nginx:1.2", "redis@sha256:ab", "r.io:5/x:y"]))
        });
        self.maybe(&mut it, "args", |dice| {
            dice.list(false, |dice| json!(dice.one(&["-a", "--b=c"])))
        });
        self.maybe(&mut it, "ports", |dice| {
            dice.list(patch, |dice| {
                let mut port = Map::new();
                if dice.roll(12) > 0 {
                    port.insert("containerPort".to_owned(), json!(80 + dice.roll(3)));
                }
                if dice.roll(2) == 0 {
                    port.insert("protocol".to_owned(), json!(dice.one(&["TCP", "UDP"])));
                }
                if dice.roll(3) == 0 {
                    port.insert("name".to_owned(), json!(dice.one(&["http", "dns"])));
                }
                dice.directive(&mut port, patch);
                Value::Object(port)
            })
        });
        self.maybe(&mut it, "env", |dice| {
            dice.list(patch, |dice| {
                let mut variable = Map::new();
                variable.insert("name".to_owned(), json!(dice.one(&["A", "B", "C"])));
                match dice.roll(4) {
                    0 => {
                        let reference =
                            json!({"configMapKeyRef": {"name": dice.one(&["settings", "other"]), "key": "k"}});
                        variable.insert("valueFrom".to_owned(), reference);
                    }
                    1 if patch => {
                        variable.insert("value".to_owned(), Value::Null);
                    }
                    2 => {
                        variable.insert("value".to_owned(), json!(dice.roll(5)));
                    }
                    _ => {
                        variable.insert("value".to_owned(), json!(dice.one(&["1", "on", "text"])));
                    }
                }
                dice.directive(&mut variable, patch);
                Value::Object(variable)
            })
        });
        self.maybe(&mut it, "volumeMounts", |dice| {
            dice.list(
                patch,
                |dice| json!({"name": "v", "mountPath": dice.one(&["/a", "/b"]), "readOnly": dice.roll(2) == 0}),
            )
        });
        self.directive(&mut it, patch);
        Value::Object(it)
    }

    fn pod(&mut self, patch: bool) -> Value {
        let mut it = Map::new();
        self.maybe(&mut it, "containers", |dice| {
            dice.list(patch, |dice| dice.container(patch))
        });
        self.maybe(&mut it, "initContainers", |dice| {
            dice.list(patch, |dice| dice.container(patch))
        });
        self.maybe(&mut it, "volumes", |dice| {
            dice.list(patch, |dice| match dice.roll(3) {
                0 => json!({"name": "v", "configMap": {"name": dice.one(&["settings", "other"])}}),
                1 => json!({"name": "w", "emptyDir": {}}),
                _ => json!({"name": "w", "secret": {"secretName": "key"}, "emptyDir": null}),
            })
        });
        self.maybe(&mut it, "tolerations", |dice| {
            dice.list(patch, |dice| json!({"key": dice.one(&["x", "y"])}))
        });
        self.maybe(&mut it, "imagePullSecrets", |dice| {
            dice.list(patch, |dice| json!({"name": dice.one(&["key", "b"])}))
        });
        self.maybe(&mut it, "nodeSelector", |dice| dice.map(patch));
        self.maybe(&mut it, "serviceAccountName", |dice| {
            json!(dice.one(&["robot", "default"]))
        });
        self.directive(&mut it, patch);
        Value::Object(it)
    }

    fn workload(&mut self, kind: &str, patch: bool) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!("app"));
        self.maybe(&mut metadata, "labels", |dice| dice.map(patch));
        self.maybe(&mut metadata, "annotations", |dice| dice.map(patch));
        self.maybe(&mut metadata, "finalizers", |dice| {
            dice.list(patch, |dice| json!(dice.one(&["a", "b", "c"])))
        });
        let pod = self.pod(patch);
        let mut template = Map::new();
        self.maybe(&mut template, "metadata", |dice| json!({"labels": dice.map(patch)}));
        template.insert("spec".to_owned(), pod);
        let mut spec = Map::new();
        self.maybe(&mut spec, "replicas", |dice| json!(dice.roll(9)));
        self.maybe(&mut spec, "selector", |dice| json!({"matchLabels": dice.map(patch)}));
        let (version, spec) = match kind {
            "CronJob" => ("batch/v1", json!({"jobTemplate": {"spec": {"template": template}}})),
            "Sample" => ("example.com/v1", json!({"template": template})),
            _ => {
                spec.insert("template".to_owned(), Value::Object(template));
                ("apps/v1", Value::Object(spec))
            }
        };
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    }

    fn service(&mut self, patch: bool) -> Value {
        let ports = self.list(patch, |dice| {
            let mut port = Map::new();
            port.insert("port".to_owned(), json!(80 + dice.roll(2)));
            dice.maybe(&mut port, "protocol", |dice| json!(dice.one(&["TCP", "UDP"])));
            dice.maybe(&mut port, "targetPort", |dice| json!(dice.one(&["http", "8080"])));
            dice.directive(&mut port, patch);
            Value::Object(port)
        });
        let selector = self.map(patch);
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "app"}, "spec": {"ports": ports, "selector": selector}})
    }

    fn kustomization(&mut self, kind: &str, overlay: bool) -> Value {
        let mut it = Map::new();
        let resources = if overlay {
            json!(["../base"])
        } else {
            json!(["all.yaml"])
        };
        it.insert("resources".to_owned(), resources);
        let mut often = |field: &str, one_of: usize, value: Value| {
            if self.roll(one_of) == 0 {
                it.insert(field.to_owned(), value);
            }
        };
        often("namespace", 3, json!("team"));
        often("namePrefix", 3, json!(if overlay { "prod-" } else { "p-" }));
        often("nameSuffix", 4, json!("-v1"));
        often(
            "commonLabels",
            4,
            json!({"app": "shop", "env": if overlay { "prod" } else { "any" }}),
        );
        often(
            "labels",
            4,
            json!([{"pairs": {"team": "blue"}, "includeTemplates": true}]),
        );
        often("commonAnnotations", 4, json!({"note": "1"}));
        often(
            "images",
            3,
            json!([{"name": "nginx", "newTag": "9"}, {"name": "redis", "newName": "m/redis"}]),
        );
        often("replicas", 6, json!([{"name": "app", "count": 3}]));
        often("sortOptions", 6, json!({"order": "legacy"}));
        often(
            "configMapGenerator",
            2,
            match overlay {
                true => json!([{"name": "settings", "behavior": "merge", "literals": ["b=2"]}]),
                false => json!([{"name": "settings", "literals": ["a=1"]}, {"name": "other", "literals": ["c=<&>"]}]),
            },
        );
        often(
            "secretGenerator",
            3,
            json!([{"name": "key", "literals": [format!("a={overlay}")], "behavior": if overlay { "replace" } else { "create" }}]),
        );
        if overlay {
            let mut patches = Vec::new();
            for _ in 0..self.roll(3) {
                let patch = if self.roll(4) == 0 {
                    self.service(true)
                } else {
                    self.workload(kind, true)
                };
                patches.push(match self.roll(3) {
                    0 => json!({"patch": patch.to_string(), "target": {"kind": patch["kind"], "name": "a.*"}}),
                    _ => json!({"patch": patch.to_string()}),
                });
            }
            if self.roll(3) == 0 {
                let path = self.one(&[
                    "/metadata/labels/a",
                    "/spec/x",
                    "/metadata/annotations/a~1b",
                    "/spec/template/spec/containers/0/tty",
                ]);
                let operation = self.one(&["add", "replace", "remove"]);
                let text = format!(
                    "- {{op: {operation}, path: {path}, value: {}}}",
                    self.one(&["1", "a", "yes", "null", "1000000"])
                );
                patches.push(json!({"patch": text, "target": {"kind": kind}}));
            }
            it.insert("patches".to_owned(), Value::Array(patches));
        }
        Value::Object(it)
    }

    fn tree(&mut self) -> Vec<(&'static str, String)> {
        let kind = self.one(&[
            "Deployment",
            "Deployment",
            "StatefulSet",
            "DaemonSet",
            "CronJob",
            "Sample",
        ]);
        let documents = [
            self.workload(kind, false),
            self.service(false),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": self.one(&["default", "team", "x"])},
                    {"kind": "ServiceAccount", "name": "default"}]}),
        ];
        let documents: Vec<_> = documents.iter().map(Value::to_string).collect();
        vec![
            ("base/kustomization.yaml", self.kustomization(kind, false).to_string()),
            ("base/all.yaml", documents.join("\n---\n")),
            ("overlay/kustomization.yaml", self.kustomization(kind, true).to_string()),
        ]
    }
}

#[test]
fn what_dice_wrote_is_built_as_kustomize_builds_it() {
    let Ok(oracle) = std::env::var("KUSTOMIZE_ORACLE") else {
        println!("skipped: KUSTOMIZE_ORACLE names no program to ask");
        return;
    };
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |it| it.parse().unwrap());
    let mut dice = Dice(number("KUSTOMIZE_SEED", 1));
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kustomize-generated");
    let (mut trees, mut folders) = (Vec::new(), Vec::new());
    for at in 0..number("KUSTOMIZE_CASES", 400) {
        let tree = dice.tree();
        for (path, content) in &tree {
            let path = root.join(at.to_string()).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folders.push(root.join(at.to_string()).join("overlay"));
        trees.push(tree);
    }
    let (mut failed, mut built) = (0, 0);
    for (trees, folders) in trees.chunks(200).zip(folders.chunks(200)) {
        let answered = Command::new(&oracle).args(folders).output().unwrap();
        let answers = String::from_utf8(answered.stdout).unwrap();
        assert_eq!(answers.lines().count(), trees.len());
        for ((tree, answer), folder) in trees.iter().zip(answers.lines()).zip(folders) {
            let answer: Value = serde_json::from_str(answer).unwrap();
            let mut files = KustomizeFiles::new();
            for (path, content) in tree {
                files.insert(path, content.as_bytes()).unwrap();
            }
            let ours = build(&files, "overlay");
            let same = match (&ours, &answer["objects"]) {
                (Err(_), Value::Null) => true,
                (Ok(ours), theirs) => json!(ours) == *theirs,
                _ => false,
            };
            built += usize::from(ours.is_ok());
            if !same {
                failed += 1;
                if failed <= 5 {
                    let ours = ours.map_or_else(|error| json!(error.to_string()), |it| json!(it));
                    println!("{}\n  ours: {ours:#}\n  kustomize's: {answer:#}\n", folder.display());
                }
            }
        }
    }
    println!("{built} of {} were built", trees.len());
    assert_eq!(failed, 0, "of {} trees", trees.len());
    fs::remove_dir_all(root).unwrap();
}
