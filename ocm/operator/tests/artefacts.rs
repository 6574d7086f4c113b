//! What is made of the operators' charts: the bases of kustomize and the bundles of the Operator Lifecycle Manager hold
//! the same objects. Where kubectl and Helm are, they say so, too.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use operator::{NAMESPACE, charts};
use serde_json::{Value, json};

const OPERATORS: [&str; 2] = ["cluster-manager", "klusterlet"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A chart with these values.
fn render(name: &str, values: Value) -> Vec<Value> {
    let made = match name {
        "cluster-manager" => charts::cluster_manager(NAMESPACE, values),
        _ => charts::klusterlet(NAMESPACE, values),
    };
    made.unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|it| it["kind"] == kind).unwrap()
}

/// In one order, with what is random left out.
fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        if object["stringData"]["token-secret"].is_string() {
            object["stringData"]["token-secret"] = json!("random");
        }
    }
    objects
        .sort_by_key(|it| [&it["kind"], &it["metadata"]["namespace"], &it["metadata"]["name"]].map(Value::to_string));
    objects
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    objects(&text)
}

fn objects(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    all.into_iter().filter(|it| !it.is_null()).collect()
}

/// What kustomize makes of a folder that names resources alone.
fn resources(folder: &Path) -> Vec<Value> {
    let kustomization = read(&folder.join("kustomization.yaml")).remove(0);
    let mut found = Vec::new();
    for resource in kustomization["resources"].as_array().unwrap() {
        let path = folder.join(resource.as_str().unwrap());
        match path.is_dir() {
            true => found.extend(resources(&path)),
            false => found.extend(read(&path)),
        }
    }
    found
}

/// The output of a program, unless there is none.
fn output(program: &Path, arguments: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: there is no {}", program.display());
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn kustomize_bases_hold_the_objects_of_the_charts() {
    for name in OPERATORS {
        let mut chart = render(name, json!({}));
        let followed = chart.pop().unwrap();
        let config = root().join(format!("deploy/{name}/config"));
        assert_eq!(sorted(resources(&config)), sorted(chart.clone()), "{name}");
        assert_eq!(
            resources(&config.join("samples")),
            std::slice::from_ref(&followed),
            "{name}"
        );
        for (folder, wanted) in [("", chart), ("/samples", vec![followed])] {
            let folder = format!("deploy/{name}/config{folder}");
            let Some(made) = output(Path::new("kubectl"), &["kustomize", &folder], "") else {
                continue;
            };
            assert_eq!(sorted(objects(&made)), sorted(wanted), "{folder}");
        }
    }
}

#[test]
fn a_sample_has_what_clusters_join_with() {
    let folder = root().join("deploy/cluster-manager/config/samples/bootstrap");
    let chart = render("cluster-manager", json!({"createBootstrapSA": true}));
    let without = render("cluster-manager", json!({}));
    let names = |it: &Value| (it["kind"].clone(), it["metadata"]["name"].clone());
    let known: Vec<_> = without.iter().map(names).collect();
    let added: Vec<Value> = chart.into_iter().filter(|it| !known.contains(&names(it))).collect();
    assert_eq!(added.len(), 3);
    assert_eq!(sorted(resources(&folder)), sorted(added));
}

#[test]
fn a_bundle_installs_what_the_chart_installs() {
    for name in OPERATORS {
        let chart = render(name, json!({}));
        let (deployment, role, followed) = (
            of_kind(&chart, "Deployment"),
            of_kind(&chart, "ClusterRole"),
            chart.last().unwrap(),
        );
        let folder = root().join(format!("deploy/olm/{name}"));
        let csv = read(&folder.join(format!("manifests/{name}.clusterserviceversion.yaml"))).remove(0);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            (&csv["metadata"]["name"], &csv["spec"]["version"]),
            (&json!(format!("{name}.v{version}")), &json!(version))
        );
        let strategy = &csv["spec"]["install"]["spec"];
        assert_eq!(
            strategy["deployments"],
            json!([{"name": name, "label": {"app": name}, "spec": deployment["spec"]}])
        );
        let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        assert_eq!(
            strategy["clusterPermissions"],
            json!([{"serviceAccountName": account, "rules": role["rules"]}])
        );
        let examples: Value =
            serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap()).unwrap();
        assert_eq!(examples, json!([followed]));
        let modes = csv["spec"]["installModes"].as_array().unwrap();
        let supported: Vec<&Value> = modes
            .iter()
            .filter(|it| it["supported"] == true)
            .map(|it| &it["type"])
            .collect();
        assert_eq!(supported, ["OwnNamespace", "SingleNamespace", "AllNamespaces"]);

        let owned = &csv["spec"]["customresourcedefinitions"]["owned"][0];
        let (plural, _) = owned["name"].as_str().unwrap().split_once('.').unwrap();
        let crd = read(&folder.join(format!("manifests/operator.open-cluster-management.io_{plural}.yaml"))).remove(0);
        assert_eq!(&crd, of_kind(&chart, "CustomResourceDefinition"));
        assert_eq!(
            (&owned["kind"], &owned["name"]),
            (&followed["kind"], &crd["metadata"]["name"])
        );
        let annotations = read(&folder.join("metadata/annotations.yaml")).remove(0);
        let annotations = annotations["annotations"].as_object().unwrap();
        let said = |of: &str| &annotations[&format!("operators.operatorframework.io.bundle.{of}.v1")];
        assert_eq!(
            (said("channels"), said("channel.default"), said("package")),
            (&json!("stable"), &json!("stable"), &json!(name))
        );
        // The image of the bundle says the same.
        let recipe = fs::read_to_string(folder.join("bundle.Containerfile")).unwrap();
        for (key, value) in annotations {
            let label = format!("LABEL {key}={}\n", value.as_str().unwrap());
            assert!(recipe.contains(&label), "{label}");
        }
    }
}

#[test]
fn helm_makes_the_same_of_the_charts() {
    let helm = Path::new("helm");
    let credentials = json!({"createImageCredentials": true, "userName": "u", "password": "p"});
    let images = json!({"registry": "r.example.com:5000/x", "tag": "v9", "imagePullPolicy": "Always", "imageCredentials": credentials});
    let hubs = [
        json!({"createBootstrapToken": true, "createBootstrapSA": true, "enableSyncLabels": true}),
        json!({"layout": "upstream", "images": {"imagePullSecrets": [{"name": "mine"}], "imageCredentials": {"createImageCredentials": true}}}),
        json!({"replicaCount": 1, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": null}),
        json!({"clusterManager": {"mode": "Hosted", "registrationConfiguration": {"autoApproveUsers": ["a: b"]}}}),
    ];
    let agents = [
        json!({"bootstrapHubKubeConfig": "a: b\n", "priorityClassName": "first", "extraVolumes": [{"name": "v"}]}),
        json!({"layout": "upstream", "multiHubBootstrapHubKubeConfigs": [{"name": "a", "kubeConfig": "x"}]}),
        json!({"externalManagedKubeConfig": "x", "klusterlet": {"mode": "Hosted", "name": "", "clusterName": "edge"}}),
    ];
    for (name, more) in [("cluster-manager", hubs.as_slice()), ("klusterlet", agents.as_slice())] {
        let shared = [json!({}), json!({"layout": "upstream"}), json!({ "images": images })];
        for values in shared.iter().chain(more) {
            let chart = format!("deploy/charts/{name}");
            let arguments = [
                "template",
                name,
                &chart,
                "--namespace",
                NAMESPACE,
                "--include-crds",
                "--values",
                "-",
            ];
            let Some(made) = output(helm, &arguments, &values.to_string()) else {
                return;
            };
            let mut ours = values.clone();
            // Helm's is made by a flag of its own.
            ours["createNamespace"] = json!(false);
            assert_eq!(sorted(objects(&made)), sorted(render(name, ours)), "{name} {values}");
        }
    }
}
