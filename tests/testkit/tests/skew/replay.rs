//! Says again what was recorded, with today's names, times and certificates in the place of those of then.

use std::collections::{BTreeMap, BTreeSet};

use credential::{KubeconfigSource, connection, csr};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString, api::certificates::v1::CertificateSigningRequest,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
};
use kube_api::pki::KeyPair;
use ocm_api::addon::v1alpha1::ManagedClusterAddOn;
use serde_json::Value;
use testkit::{Ground, objects, wait};

use crate::{
    session::{BOOTSTRAPPERS, JOINER, accepted},
    transcript::{Line, replace},
};

/// Sends a line as it is.
pub async fn send(client: &Client, line: &Line) -> Result<Value, kube::Error> {
    let query = if line.query.is_empty() {
        String::new()
    } else {
        format!("?{}", line.query)
    };
    let mut request = Request::builder()
        .method(line.verb.as_str())
        .uri(format!("{}{query}", line.path));
    if !line.content_type.is_empty() {
        request = request.header(http::header::CONTENT_TYPE, &line.content_type);
    }
    let body = match &line.body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    client.request(request.body(body).unwrap()).await
}

/// An object by its path.
struct Place {
    api: Api<DynamicObject>,
    plural: String,
    name: String,
    /// Whether it is a sub-resource.
    is_part: bool,
}

impl Place {
    fn of(client: &Client, path: &str) -> Self {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => panic!("{path} is no path of an object"),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: String::new(),
            plural: rest[0].to_owned(),
        };
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        Self {
            api,
            plural: rest[0].to_owned(),
            name: rest.get(1).copied().unwrap_or_default().to_owned(),
            is_part: rest.len() > 2,
        }
    }

    /// The path without a sub-resource.
    fn path(&self) -> String {
        format!("{}/{}", self.api.resource_url(), self.name)
    }
}

/// A recorded session that is being told again.
pub struct Replay<'a> {
    hub: &'a Ground,
    admin: Client,
    /// Who has named which condition of a kind first: whether it was the cluster's side.
    authors: BTreeMap<(String, String), bool>,
    /// What the server has named, by its placeholder.
    names: BTreeMap<String, String>,
    deleted: BTreeSet<String>,
    /// The agent before it has a certificate of its own.
    joiner: Option<Client>,
    /// The request of the agent for a certificate, and its key.
    asked: Option<(String, String)>,
    /// The agent with the certificate that it was given.
    agent: Option<Client>,
}

impl<'a> Replay<'a> {
    pub fn new(hub: &'a Ground, lines: &[Line]) -> Self {
        let admin = hub.client();
        let mut authors = BTreeMap::new();
        for line in lines.iter().filter(|it| it.at.is_some() && !it.is_read()) {
            let plural = Place::of(&admin, &line.path).plural;
            for condition in line.body["status"]["conditions"].as_array().into_iter().flatten() {
                let type_ = condition["type"].as_str().unwrap_or_default().to_owned();
                authors
                    .entry((plural.clone(), type_))
                    .or_insert(line.by.is_of_cluster());
            }
        }
        Self {
            hub,
            admin,
            authors,
            names: BTreeMap::new(),
            deleted: BTreeSet::new(),
            joiner: None,
            asked: None,
            agent: None,
        }
    }

    /// A write of the recorded hub or of the user, by somebody who may do everything.
    pub async fn as_hub(&mut self, line: &Line) {
        if line.path.contains("/events.k8s.io/") || line.path.contains("reviews") {
            return;
        }
        let client = self.admin.clone();
        self.say(&client, line).await;
        if line.verb == "POST" && line.path.ends_with("/customresourcedefinitions") {
            let name = line.body["metadata"]["name"].as_str().unwrap();
            let served = |it: Option<&CustomResourceDefinition>| objects::is_true(&it, "Established");
            wait::until(&Api::all(self.admin.clone()), name, "is served", served).await;
        }
    }

    /// What the recorded hub did to an object that today's hub does as well.
    pub fn note_deletion(&mut self, line: &Line) {
        if line.verb == "DELETE" {
            self.deleted.insert(Place::of(&self.admin, &line.path).path());
        }
    }

    /// A write of the recorded agent, with the identity that it has now.
    pub async fn as_agent(&mut self, line: &Line, is_joiner: bool) {
        if line.path.contains("/events.k8s.io/") || line.path.contains("reviews") {
            return;
        }
        let client = if is_joiner {
            if self.joiner.is_none() {
                self.joiner = Some(client(self.hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).await).await);
            }
            self.joiner.clone().unwrap()
        } else {
            self.agent().await
        };
        if line.verb == "POST" && line.path.ends_with("/certificatesigningrequests") {
            self.ask(&client, line).await;
        } else {
            self.say(&client, line).await;
        }
    }

    // A certificate is asked for, and has to come.
    async fn ask(&mut self, client: &Client, line: &Line) {
        let prefix = line.body["metadata"]["generateName"].as_str().unwrap().to_owned();
        let is_add_on = prefix.starts_with("addon-");
        let subject = if is_add_on {
            self.subject_of_add_on().await
        } else {
            csr::CertificateSubject::agent("cluster1", "agent1")
        };
        let asked = csr::new_key_and_request(&subject).unwrap();
        let mut line = line.clone();
        line.body["spec"]["request"] = serde_json::to_value(ByteString(asked.request_pem.into_bytes())).unwrap();
        let created = send(client, &line)
            .await
            .unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let name = created["metadata"]["name"].as_str().unwrap().to_owned();
        self.names.insert(format!("<{prefix}>"), name.clone());
        if is_add_on {
            self.signed(&name).await;
        } else {
            self.asked = Some((name, asked.key_pem));
        }
    }

    async fn signed(&self, name: &str) -> Vec<u8> {
        let requests: Api<CertificateSigningRequest> = Api::all(self.admin.clone());
        let certificate = |it: &CertificateSigningRequest| it.status.as_ref()?.certificate.clone();
        let is_signed = |it: Option<&CertificateSigningRequest>| it.and_then(certificate).is_some();
        let signed = wait::until(&requests, name, "is approved and signed", is_signed).await;
        signed.as_ref().and_then(certificate).unwrap().0
    }

    // The agent speaks for itself once it has its certificate and its rights, which come with its acceptance.
    async fn agent(&mut self) -> Client {
        if self.agent.is_none() {
            let (name, key_pem) = self
                .asked
                .clone()
                .expect("the recorded agent has asked for a certificate");
            let pair = KeyPair {
                certificate_pem: String::from_utf8(self.signed(&name).await).unwrap(),
                key_pem,
            };
            accepted(&self.admin).await;
            self.agent = Some(client(self.hub.kubeconfig_with(&pair)).await);
        }
        self.agent.clone().unwrap()
    }

    async fn subject_of_add_on(&self) -> csr::CertificateSubject {
        let add_ons: Api<ManagedClusterAddOn> = Api::namespaced(self.admin.clone(), "cluster1");
        let registered = |it: Option<&ManagedClusterAddOn>| {
            it.and_then(|it| it.status.as_ref())
                .is_some_and(|it| !it.registrations.is_empty())
        };
        let add_on = wait::until(&add_ons, "helloworld", "is told who it is", registered).await;
        let subject = add_on.unwrap().status.unwrap().registrations.remove(0).subject;
        csr::CertificateSubject {
            common_name: subject.user,
            organizations: subject.groups,
            organizational_units: Vec::new(),
            dns_names: Vec::new(),
        }
    }

    async fn say(&mut self, client: &Client, line: &Line) {
        let mut line = line.clone();
        self.name(&mut line).await;
        let place = Place::of(&self.admin, &line.path);
        // A cluster that is deleted has no rights any more, and the hub has let go of its works: what the recorded
        // agent says and does then comes too late.
        let is_gone =
            self.deleted.iter().any(|it| it.ends_with("/managedclusters/cluster1")) && line.by.is_of_cluster();
        let was_deleted = is_gone || self.deleted.contains(&place.path());
        self.note_deletion(&line);
        if line.verb != "POST" && line.verb != "DELETE" && !was_deleted && !line.content_type.contains("apply") {
            let what = format!("is there, for {} {}", line.verb, line.path);
            wait::until_with(&place.api, &place.name, &what, |it| it.is_some()).await;
        }
        let current = match place.name.as_str() {
            "" => None,
            name => place.api.get_opt(name).await.unwrap(),
        };
        let current = current.map(|it| serde_json::to_value(it).unwrap()).unwrap_or_default();
        if line.verb == "PUT" {
            // Whole objects carry what the server has written into them.
            line.body["metadata"] = current["metadata"].clone();
            if place.is_part {
                line.body["spec"] = current["spec"].clone();
            }
        } else if line.body["status"]["conditions"].is_array() {
            self.blend(&place, &current, &mut line);
        }
        self.own(&mut line.body).await;
        replace(&mut line.body, &present);
        match send(client, &line).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(kube::Error::Api(status)) if status.code == 404 && (was_deleted || line.verb == "DELETE") => {}
            Err(kube::Error::Api(status)) if status.code == 403 && is_gone => {}
            Err(error) => panic!("{error}\nto {}", serde_json::to_string_pretty(&line).unwrap()),
        }
    }

    // Puts the names of today into the line.
    async fn name(&mut self, line: &mut Line) {
        let text = format!("{} {}", line.path, line.body);
        for prefix in ["cluster1-", "addon-cluster1-helloworld-"] {
            let word = format!("<{prefix}>");
            if !text.contains(&word) {
                continue;
            }
            if !self.names.contains_key(&word) {
                let requests: Api<CertificateSigningRequest> = Api::all(self.admin.clone());
                let is = |it: &CertificateSigningRequest| it.name_any().starts_with(prefix);
                let what = format!("a certificate signing request {prefix}...");
                let all = wait::until_all(&requests, &what, |all| all.iter().any(is)).await;
                self.names
                    .insert(word.clone(), all.into_iter().find(is).unwrap().name_any());
            }
            let name = &self.names[&word];
            line.path = line.path.replace(&word, name);
            replace(&mut line.body, &|it| it.replace(&word, name));
        }
    }

    // A patch of conditions is one of the whole list: what the other side has said meanwhile stays.
    fn blend(&self, place: &Place, current: &Value, line: &mut Line) {
        let side = line.by.is_of_cluster();
        let is_mine = |it: &Value| {
            let type_ = it["type"].as_str().unwrap_or_default().to_owned();
            self.authors.get(&(place.plural.clone(), type_)) == Some(&side)
        };
        let list = |it: &Value| it["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut blended: Vec<Value> = list(&line.body).into_iter().filter(is_mine).collect();
        blended.extend(list(current).into_iter().filter(|it| !is_mine(it)));
        line.body["status"]["conditions"] = blended.into();
    }

    // An owner is told by its uid.
    async fn own(&self, body: &mut Value) {
        let namespace = body["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let owners = body
            .pointer_mut("/metadata/ownerReferences")
            .and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            let api = self.hub.api(&text("apiVersion"), &text("kind"), &namespace).await;
            owner["uid"] = api.get(&text("name")).await.unwrap().uid().into();
        }
    }
}

async fn client(kubeconfig: String) -> Client {
    let loaded = KubeconfigSource::Inline(kubeconfig).read().await.unwrap();
    connection::client(&loaded.config).unwrap()
}

fn present(text: &str) -> String {
    let now = Timestamp::now();
    text.replace("<microtime>", &format!("{now:.6}"))
        .replace("<time>", &format!("{now:.0}"))
}
