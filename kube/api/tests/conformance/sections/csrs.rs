//! CertificateSigningRequests: what is believed of them, who approves and signs, and what comes out.

use crate::{
    check::{Check, must, should},
    client::{Ask, Reply},
    cx::{CSRS, Cx, WHO, csr, signing_request},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_api::pki::{Pki, certificate};
use p256::{
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::LineEnding,
};
use serde_json::{Value, json};
use x509_cert::{
    builder::Builder,
    der::{
        EncodePem,
        asn1::{Ia5String, OctetString},
    },
    ext::pkix::{SubjectAltName, name::GeneralName},
    request::RequestBuilder,
};
use x509_parser::{
    extensions::ParsedExtension,
    prelude::{FromDer, X509Certificate},
};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "183",
            "the requester is who asked, whatever the request says; usages, signer and expiration are checked",
            spec,
        ),
        must(
            "184",
            "an approved request has its certificate within a second, as it was asked for, and the certificate works",
            signing,
        ),
        must(
            "185",
            "approving and signing need rights on the signer; system:masters is refused",
            permission,
        ),
        must(
            "186",
            "/status cannot approve, nothing is taken back, and Approved and Denied exclude each other",
            conditions,
        ),
        should(
            "187",
            "a usage that the signer does not give fails; other signers are left alone; kubelets are approved",
            signers,
        ),
        should("188", "old requests go", cleanup).embedded("a clock would have to be set forward"),
    ]
}

async fn spec(c: Cx) {
    let (request, _) = signing_request("somebody", &["g"]);
    let mut object = csr(&c.name("a"), &request, CLIENT, &["client auth"]);
    for (key, value) in [
        ("username", json!("forged")),
        ("uid", json!("forged")),
        ("groups", json!(["system:masters"])),
        ("extra", json!({"forged": ["x"]})),
    ] {
        object["spec"][key] = value;
    }
    let alice = c.client(&c.certificate("alice", &["devs"]).await);
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]}]);
    c.grant(
        "",
        "csr",
        rules,
        json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}),
    )
    .await;
    let (made, _) = c
        .until_asked(&alice, &Ask::post(CSRS, &object), |it| it.code == 201)
        .await;
    c.removes(&format!("{CSRS}/{}", c.name("a")));
    assert_eq!(
        (&made["spec"]["username"], &made["spec"]["groups"]),
        (&json!("alice"), &json!(["devs", "system:authenticated"]))
    );
    // Applied, one is made as well, with all of it; and once it is there, an apply leaves it as it was made.
    let path = format!("{CSRS}/{}", c.name("applied"));
    let mut applied = csr(&c.name("applied"), &request, CLIENT, &["client auth"]);
    let first = c.apply(&path, "m", applied.clone()).await.is(201);
    c.removes(&path);
    assert_eq!(first.at("/spec/request"), &applied["spec"]["request"]);
    applied["spec"]["usages"] = json!(["server auth"]);
    let second = c.apply(&path, "m", applied).await.is(200);
    assert_eq!(
        (second.at("/spec"), second.revision()),
        (first.at("/spec"), first.revision())
    );
    // Who signs in by a certificate has no uid, and of extras what the server itself says.
    let info = alice.send(Ask::post(WHO, &json!({}))).await.is(201);
    assert_eq!(info.at("/status/userInfo/username"), "alice");
    assert_eq!(made.at("/spec/extra"), info.at("/status/userInfo/extra"));
    let made = made.lacks("/spec/uid");
    let kept = alice.send(Ask::get(format!("{CSRS}/{}", c.name("a")))).await.is(200);
    assert_eq!(
        (kept.at("/spec"), kept.revision()),
        (made.at("/spec"), made.revision()),
        "what is kept is what was answered"
    );
    let with = |change: fn(&mut Value)| {
        let mut object = csr(&c.name("bad"), &request, CLIENT, &["client auth"]);
        change(&mut object);
        object
    };
    for (object, message) in [
        (with(|it| it["spec"]["usages"] = json!([])), "spec.usages"),
        (
            with(|it| it["spec"]["usages"] = json!(["fly"])),
            "spec.usages[0]: Unsupported value: \"fly\"",
        ),
        (
            with(|it| it["spec"]["signerName"] = json!("nodomain")),
            "spec.signerName",
        ),
        (
            with(|it| it["spec"]["expirationSeconds"] = json!(10)),
            "may not specify a duration less than 600 seconds (10 minutes)",
        ),
        (
            with(|it| it["spec"]["request"] = json!(STANDARD.encode("no pem"))),
            "spec.request",
        ),
    ] {
        c.post(CSRS, object).await.fails(422, "Invalid").mentions(message);
    }
    let path = format!("{CSRS}/{}", c.name("a"));
    let before = c.get(&path).await.is(200);
    for (key, value) in [
        ("usages", json!(["server auth"])),
        ("username", json!("forged")),
        ("groups", json!(["system:masters"])),
        ("request", json!(STANDARD.encode(signing_request("another", &[]).0))),
    ] {
        let mut changed = before.json.clone();
        changed["spec"][key] = value;
        changed["status"]["conditions"] =
            json!([{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]);
        let after = c.put(&path, &changed).await.is(200);
        assert_eq!(
            (after.at("/spec"), after.at("/status"), after.revision()),
            (before.at("/spec"), before.at("/status"), before.revision()),
            "a PUT changes neither spec nor status: {key}"
        );
    }
}

async fn signing(c: Cx) {
    let (request, key) = signing_request("bob", &["one", "two"]);
    let name = c.name("a");
    let mut object = csr(
        &name,
        &request,
        CLIENT,
        &["digital signature", "key encipherment", "client auth"],
    );
    object["spec"]["expirationSeconds"] = 3600.into();
    c.make(CSRS, object).await;
    let path = format!("{CSRS}/{name}");
    let approved = c.approve(&path).await;
    let condition = approved.at("/status/conditions/0");
    assert!(
        condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string(),
        "{condition}"
    );
    let (signed, took) = c.until(&path, |it| it.at("/status/certificate").is_string()).await;
    assert!(took.as_secs() < 5, "signed after {took:?}");
    let pem = STANDARD
        .decode(signed.at("/status/certificate").as_str().unwrap())
        .unwrap();
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).unwrap();
    let (_, certificate) = X509Certificate::from_der(&block.contents).unwrap();
    let subject = certificate.subject().to_string();
    assert!(
        subject.contains("CN=bob") && subject.contains("O=one") && subject.contains("O=two"),
        "{subject}"
    );
    let now = jiff::Timestamp::now().as_second();
    let (from, until) = (
        certificate.validity().not_before.timestamp(),
        certificate.validity().not_after.timestamp(),
    );
    assert!((now - 310..=now - 240).contains(&from), "not before {from}, now {now}");
    assert!(
        (now + 3300..=now + 3660).contains(&until),
        "not after {until}, now {now}"
    );
    let usage = certificate
        .extended_key_usage()
        .unwrap()
        .expect("extended key usage")
        .value
        .clone();
    assert!(usage.client_auth && !usage.server_auth);
    let usage = certificate.key_usage().unwrap().expect("key usage");
    assert!(usage.value.digital_signature() && usage.value.key_encipherment());
    assert!(!certificate.is_ca());
    assert!(certificate.raw_serial().len() >= 8, "a random serial number");
    let client = c.client(&crate::cluster::Credential::pair(
        &String::from_utf8(pem.clone()).unwrap(),
        &key,
    ));
    let info = client.send(Ask::post(WHO, &json!({}))).await.is(201);
    assert_eq!(
        info.at("/status/userInfo/groups"),
        &json!(["one", "two", "system:authenticated"])
    );
    unasked(&c).await;
}

/// A request for other names beside the subject.
fn request_with_names(user: &str, groups: &[&str], names: Vec<GeneralName>) -> String {
    let key = SigningKey::generate_from_rng(&mut rand::rng());
    let mut builder = RequestBuilder::new(certificate::subject(user, groups).unwrap()).unwrap();
    builder.add_extension(&SubjectAltName(names)).unwrap();
    let request = builder.build::<_, DerSignature>(&key).unwrap();
    request.to_pem(LineEnding::LF).unwrap()
}

fn dns(name: &str) -> GeneralName {
    GeneralName::DnsName(Ia5String::new(name).unwrap())
}

/// The certificate's bytes.
fn der(pem: &[u8]) -> Vec<u8> {
    x509_parser::pem::parse_x509_pem(pem).unwrap().1.contents
}

/// What a certificate says that nobody asked for, and how long it lives when that is not said.
async fn unasked(c: &Cx) {
    let trusted = c
        .get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        .await
        .is(200);
    let authority = der(trusted["data"]["client-ca-file"].as_str().unwrap().as_bytes());
    let (_, authority) = X509Certificate::from_der(&authority).unwrap();
    let names = vec![
        dns("a.example.com"),
        GeneralName::IpAddress(OctetString::new([10, 0, 0, 1]).unwrap()),
        GeneralName::Rfc822Name(Ia5String::new("x@example.com").unwrap()),
        GeneralName::UniformResourceIdentifier(Ia5String::new("spiffe://x/y").unwrap()),
    ];
    let request = request_with_names("bob", &["one"], names);
    // Longer than anybody signs for.
    for seconds in [None, Some(20 * 365 * 86400)] {
        let name = c.name(&format!("unasked-{}", seconds.unwrap_or_default()));
        let mut object = csr(&name, &request, CLIENT, &["client auth"]);
        object["spec"]["expirationSeconds"] = seconds.into();
        c.make(CSRS, object).await;
        let path = format!("{CSRS}/{name}");
        c.approve(&path).await;
        let (signed, _) = c.until(&path, |it| it.at("/status/certificate").is_string()).await;
        let pem = STANDARD
            .decode(signed.at("/status/certificate").as_str().unwrap())
            .unwrap();
        let bytes = der(&pem);
        let (_, issued) = X509Certificate::from_der(&bytes).unwrap();
        let year = jiff::Timestamp::now().as_second() + 365 * 86400;
        let wanted = year.min(authority.validity().not_after.timestamp());
        let until = issued.validity().not_after.timestamp();
        assert!(
            (wanted - 600..=wanted).contains(&until),
            "it lives until {until}; a year, or as long as its authority, is until {wanted}"
        );
        assert_eq!(issued.issuer(), authority.subject());
        let constraints = issued.basic_constraints().unwrap().expect("basic constraints");
        assert!(constraints.critical && !constraints.value.ca);
        assert!(issued.key_usage().unwrap().is_none(), "none was asked for");
        let identifier = |of: &X509Certificate<'_>, own: bool| {
            of.extensions().iter().find_map(|it| match it.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(id) if !own => {
                    id.key_identifier.as_ref().map(|it| it.0.to_vec())
                }
                ParsedExtension::SubjectKeyIdentifier(id) if own => Some(id.0.to_vec()),
                _ => None,
            })
        };
        let of_authority = identifier(&authority, true);
        assert!(of_authority.is_some());
        assert_eq!(identifier(&issued, false), of_authority);
        let names = issued.subject_alternative_name().unwrap().expect("other names");
        let mut names: Vec<String> = names.value.general_names.iter().map(|it| format!("{it:?}")).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "DNSName(\"a.example.com\")",
                "IPAddress([10, 0, 0, 1])",
                "RFC822Name(\"x@example.com\")",
                "URI(\"spiffe://x/y\")"
            ]
        );
    }
}

/// A user of this check who may write the subresources of requests, and has no right on any signer yet.
async fn writer(c: &Cx, what: &str) -> (String, Value) {
    let user = c.name(what);
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "verbs": ["update", "patch"],
        "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"]}]);
    c.grant("", what, rules, subject.clone()).await;
    (user, subject)
}

fn on_signer(verb: &str, name: &str) -> Value {
    json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [name], "verbs": [verb]}])
}

async fn permission(c: Cx) {
    const CUSTOM: &str = "ex.io/custom";
    let (request, _) = signing_request("bob", &[]);
    let refusal = |name: &str, verb: &str, signer: &str| {
        format!(
            "certificatesigningrequests.certificates.k8s.io \"{name}\" is forbidden: user not permitted to {verb} \
             requests with signerName \"{signer}\""
        )
    };
    let knows = |it: &Reply| !it["message"].to_string().contains("cannot update resource");
    let decision = |kind: &str| json!([{"type": kind, "status": "True", "reason": "r", "message": "m"}]);
    let with = async |path: &str, field: &str, value: Value| {
        let mut object = c.get(path).await.is(200).json;
        object["status"][field] = value;
        object
    };

    // Approving and denying.
    let name = c.name("a");
    c.make(CSRS, csr(&name, &request, CLIENT, &["client auth"])).await;
    let path = format!("{CSRS}/{name}");
    let (approver, subject) = writer(&c, "approver").await;
    for kind in ["Approved", "Denied"] {
        let object = with(&path, "conditions", decision(kind)).await;
        let ask = Ask::put(format!("{path}/approval"), &object).user(&approver, &[]);
        let (refused, _) = c.until_asked(&c.admin, &ask, knows).await;
        refused.fails(403, "Forbidden").says(&refusal(&name, "approve", CLIENT));
    }
    // The right to sign is another one, and so is that on another signer.
    c.grant("", "others", on_signer("sign", CLIENT), subject.clone()).await;
    c.grant("", "elsewhere", on_signer("approve", CUSTOM), subject.clone())
        .await;
    let other = c.name("b");
    c.make(CSRS, csr(&other, &request, CUSTOM, &["client auth"])).await;
    let object = with(&format!("{CSRS}/{other}"), "conditions", decision("Denied")).await;
    let ask = Ask::put(format!("{CSRS}/{other}/approval"), &object).user(&approver, &[]);
    c.until_asked(&c.admin, &ask, |it| it.code == 200).await;
    let object = with(&path, "conditions", decision("Approved")).await;
    let ask = Ask::put(format!("{path}/approval"), &object).user(&approver, &[]);
    c.send(ask.clone())
        .await
        .fails(403, "Forbidden")
        .says(&refusal(&name, "approve", CLIENT));
    // The whole domain may be granted at once.
    c.grant("", "domain", on_signer("approve", "kubernetes.io/*"), subject)
        .await;
    c.until_asked(&c.admin, &ask, |it| it.code == 200).await;

    // Signing: a certificate, and a condition that says there will be none.
    let name = c.name("c");
    c.make(CSRS, csr(&name, &request, CUSTOM, &["client auth"])).await;
    let path = format!("{CSRS}/{name}");
    c.approve(&path).await;
    let (signer, subject) = writer(&c, "signer").await;
    let authority = Pki::open(None, &[], jiff::Timestamp::now()).unwrap();
    let certificate = STANDARD.encode(authority.ca_pem());
    let issued = with(&path, "certificate", certificate.clone().into()).await;
    let issue = Ask::put(format!("{path}/status"), &issued).user(&signer, &[]);
    let mut conditions = issued["status"]["conditions"].as_array().unwrap().clone();
    conditions.extend(decision("Failed").as_array().unwrap().clone());
    let failed = with(&path, "conditions", conditions.into()).await;
    let fail = Ask::put(format!("{path}/status"), &failed).user(&signer, &[]);
    // Whatever else is to be noted in its conditions, too.
    let mut conditions = issued["status"]["conditions"].as_array().unwrap().clone();
    conditions.extend(decision("Seen").as_array().unwrap().clone());
    let noted = with(&path, "conditions", conditions.into()).await;
    let note = Ask::put(format!("{path}/status"), &noted).user(&signer, &[]);
    for ask in [&issue, &fail, &note] {
        let (refused, _) = c.until_asked(&c.admin, ask, knows).await;
        refused.fails(403, "Forbidden").says(&refusal(&name, "sign", CUSTOM));
    }
    c.grant("", "approves", on_signer("approve", CUSTOM), subject.clone())
        .await;
    c.grant("", "of-others", on_signer("sign", "ex.io/other"), subject.clone())
        .await;
    // Known when what was granted after them is.
    let probe = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]);
    c.grant("", "probe", probe, subject.clone()).await;
    c.until_asked(&c.admin, &Ask::get("/api/v1/nodes").user(&signer, &[]), |it| {
        it.code == 200
    })
    .await;
    c.send(issue.clone())
        .await
        .fails(403, "Forbidden")
        .says(&refusal(&name, "sign", CUSTOM));
    c.grant("", "signs", on_signer("sign", CUSTOM), subject).await;
    let (signed, _) = c.until_asked(&c.admin, &issue, |it| it.code == 200).await;
    assert_eq!(signed.at("/status/certificate"), &json!(certificate));

    let (masters, _) = signing_request("root", &["system:masters"]);
    c.post(CSRS, csr(&c.name("root"), &masters, CLIENT, &["client auth"]))
        .await
        .fails(403, "Forbidden")
        .says(&format!(
            "certificatesigningrequests.certificates.k8s.io \"{}\" is forbidden: use of \
             kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
            c.name("root")
        ));
}

async fn conditions(c: Cx) {
    let (request, _) = signing_request("bob", &[]);
    let name = c.name("a");
    c.make(CSRS, csr(&name, &request, "ex.io/custom", &["client auth"]))
        .await;
    let path = format!("{CSRS}/{name}");
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "r", "message": "m"});
    let with = async |conditions: Value| {
        let mut object = c.get(&path).await.json;
        object["status"]["conditions"] = conditions;
        object
    };
    let object = with(json!([condition("Approved", "True")])).await;
    c.put(&format!("{path}/status"), &object)
        .await
        .fails(422, "Invalid")
        .mentions("status.conditions: Forbidden: updates may not add a condition of type \"Approved\"");
    let object = with(json!([condition("Approved", "False")])).await;
    c.put(&format!("{path}/approval"), &object)
        .await
        .fails(422, "Invalid")
        .mentions("status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"");
    c.approve(&path).await;
    let object = with(json!([])).await;
    c.put(&format!("{path}/approval"), &object)
        .await
        .fails(422, "Invalid")
        .mentions("updates may not remove a condition of type \"Approved\"");
    let both = json!([condition("Approved", "True"), condition("Denied", "True")]);
    let object = with(both).await;
    c.put(&format!("{path}/approval"), &object)
        .await
        .fails(422, "Invalid")
        .mentions("Approved and Denied conditions are mutually exclusive");
    let mut object = c.get(&path).await.json;
    object["status"]["certificate"] = STANDARD.encode("no pem").into();
    c.put(&format!("{path}/status"), &object)
        .await
        .fails(422, "Invalid")
        .mentions("status.certificate");
    // A certificate comes through /status, once.
    let pem = |it: &Pki| json!(STANDARD.encode(it.ca_pem()));
    let [one, two] = [(); 2].map(|()| Pki::open(None, &[], jiff::Timestamp::now()).unwrap());
    let mut object = c.get(&path).await.json;
    object["status"]["certificate"] = pem(&one);
    c.put(&format!("{path}/approval"), &object)
        .await
        .is(200)
        .lacks("/status/certificate");
    let mut object = c.get(&path).await.json;
    object["status"]["certificate"] = pem(&one);
    c.put(&path, &object).await.is(200).lacks("/status/certificate");
    let mut object = c.get(&path).await.json;
    object["status"]["certificate"] = pem(&one);
    let issued = c.put(&format!("{path}/status"), &object).await.is(200);
    assert_eq!(issued.at("/status/certificate"), &pem(&one));
    for certificate in [pem(&two), Value::Null] {
        let mut object = issued.json.clone();
        object["status"]["certificate"] = certificate;
        c.put(&format!("{path}/status"), &object)
            .await
            .fails(422, "Invalid")
            .mentions("status.certificate: Forbidden: updates may not modify existing certificate content");
    }
    let other = c.name("b");
    c.make(CSRS, csr(&other, &request, "ex.io/custom", &["client auth"]))
        .await;
    let patch = json!({"status": {"conditions": [condition("Denied", "True")]}});
    c.send(Ask::patch("merge", format!("{CSRS}/{other}/approval"), &patch))
        .await
        .is(200)
        .has("/status/conditions/0/type", "Denied");
    let mut object = c.get(&format!("{CSRS}/{other}")).await.json;
    object["status"]["conditions"] = json!([]);
    c.put(&format!("{CSRS}/{other}/approval"), &object)
        .await
        .fails(422, "Invalid")
        .mentions("updates may not remove a condition of type \"Denied\"");
}

async fn signers(c: Cx) {
    let (request, _) = signing_request("bob", &[]);
    let name = c.name("wrong");
    c.make(CSRS, csr(&name, &request, CLIENT, &["server auth"])).await;
    let path = format!("{CSRS}/{name}");
    c.approve(&path).await;
    let (failed, _) = c.until(&path, |it| it.at("/status/conditions/1").is_object()).await;
    let condition = failed.at("/status/conditions/1");
    assert_eq!(
        (&condition["type"], &condition["reason"], &condition["message"]),
        (
            &json!("Failed"),
            &json!("SignerValidationFailure"),
            &json!("invalid usage for client certificate: server auth")
        )
    );
    let custom = c.name("custom");
    c.make(CSRS, csr(&custom, &request, "ex.io/custom", &["client auth"]))
        .await;
    c.approve(&format!("{CSRS}/{custom}")).await;
    let (kubelet, _) = signing_request("system:node:n1", &["system:nodes"]);
    let name = c.name("kubelet");
    let usages = ["digital signature", "client auth"];
    c.make(
        CSRS,
        csr(&name, &kubelet, "kubernetes.io/kube-apiserver-client-kubelet", &usages),
    )
    .await;
    let (approved, _) = c
        .until(&format!("{CSRS}/{name}"), |it| it.at("/status/certificate").is_string())
        .await;
    assert_eq!(
        (
            approved.at("/status/conditions/0/reason"),
            approved.at("/status/conditions/0/message")
        ),
        (
            &json!("AutoApproved"),
            &json!("Auto approving kubelet client certificate after SubjectAccessReview.")
        )
    );
    kubelets(&c, &kubelet).await;
    c.get(&format!("{CSRS}/{custom}"))
        .await
        .is(200)
        .lacks("/status/certificate");
}

/// What kubelets' certificates have to be asked for with; those that they serve with nobody approves by himself.
async fn kubelets(c: &Cx, nameless: &str) {
    const NODE: &str = "system:node:n1";
    let named = request_with_names(NODE, &["system:nodes"], vec![dns("n1")]);
    let foreign = request_with_names("bob", &["system:nodes"], vec![dns("n1")]);
    let serving = "kubernetes.io/kubelet-serving";
    let both = ["digital signature", "key encipherment", "server auth"];
    for (what, request, signer, usages, refusal) in [
        ("serves", named.as_str(), serving, &both[..], ""),
        (
            "no-names",
            nameless,
            serving,
            &both[..],
            "DNS or IP subjectAltName is required",
        ),
        (
            "other-usage",
            &named,
            serving,
            &["digital signature", "client auth"],
            "usages did not match [digital signature key encipherment server auth]",
        ),
        (
            "no-node",
            &foreign,
            serving,
            &both[..],
            "subject common name does not begin with system:node:",
        ),
        (
            "names",
            &named,
            "kubernetes.io/kube-apiserver-client-kubelet",
            &["digital signature", "client auth"],
            "DNS subjectAltNames are not allowed",
        ),
    ] {
        let name = c.name(what);
        c.make(CSRS, csr(&name, request, signer, usages)).await;
        let path = format!("{CSRS}/{name}");
        c.get(&path).await.is(200).lacks("/status/conditions");
        c.approve(&path).await;
        let (done, _) = c
            .until(&path, |it| {
                it.at("/status/certificate").is_string() || it.at("/status/conditions/1").is_object()
            })
            .await;
        if refusal.is_empty() {
            let pem = STANDARD
                .decode(done.at("/status/certificate").as_str().expect(what))
                .unwrap();
            let bytes = der(&pem);
            let (_, issued) = X509Certificate::from_der(&bytes).unwrap();
            let usage = issued.extended_key_usage().unwrap().unwrap().value;
            assert!(usage.server_auth && !usage.client_auth);
            assert!(issued.key_usage().unwrap().expect("key usage").critical);
            continue;
        }
        let condition = done.at("/status/conditions/1");
        assert_eq!(
            (&condition["type"], &condition["reason"], &condition["message"]),
            (&json!("Failed"), &json!("SignerValidationFailure"), &json!(refusal)),
            "{what}"
        );
    }
}

async fn cleanup(c: Cx) {
    // Written past the API as if it were of yesterday.
    let (own, c) = c.own_server().await;
    let (request, _) = signing_request("bob", &[]);
    c.post(CSRS, csr("old", &request, "ex.io/custom", &["client auth"]))
        .await
        .is(201);
    for name in ["new", "decided", "decided-lately"] {
        c.post(CSRS, csr(name, &request, "ex.io/custom", &["client auth"]))
            .await
            .is(201);
    }
    for name in ["decided", "decided-lately"] {
        c.approve(&format!("{CSRS}/{name}")).await;
    }
    let store = own.server.store();
    let resource = std::sync::Arc::<str>::from("certificatesigningrequests.certificates.k8s.io");
    let rewrite = |name: &str, change: &dyn Fn(&mut Value)| {
        let old = store.get(&resource, "", name).unwrap();
        let mut value = old.value();
        change(&mut value);
        let expect = kube_store::store::Expect::Revision(old.revision);
        let made = store.commit(&resource, "", name, expect, |revision| {
            Some(kube_store::Object::encode(&resource, value, revision))
        });
        assert!(made.is_ok());
    };
    rewrite("old", &|it| {
        it["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    });
    let ago = |minutes: i64| {
        let then = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
        then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    for (name, minutes) in [("decided", 61), ("decided-lately", 55)] {
        let then = ago(minutes);
        rewrite(name, &|it| {
            it["metadata"]["creationTimestamp"] = then.clone().into();
            it["status"]["conditions"][0]["lastUpdateTime"] = then.clone().into();
            it["status"]["conditions"][0]["lastTransitionTime"] = then.clone().into();
        });
    }
    // A start looks at what there is.
    let own = own.restart().await;
    let c = Cx::new(&own.target, "188", "again");
    for name in ["old", "decided"] {
        c.until_gone(&format!("{CSRS}/{name}")).await;
    }
    for name in ["new", "decided-lately"] {
        c.get(&format!("{CSRS}/{name}")).await.is(200);
    }
    own.stop().await;
}
