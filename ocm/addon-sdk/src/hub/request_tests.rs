use std::sync::Arc;

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::Api;
use kube_primitives::certificate_request::CLIENT_USAGES;
use p256::{
    SecretKey,
    ecdsa::{DerSignature, SigningKey, signature::Signer},
};
use serde_json::{Value, json};
use x509_cert::{
    attr::Attribute,
    der::{
        Encode, EncodePem,
        asn1::{BitString, Ia5String, OctetString},
        oid::AssociatedOid,
        pem::LineEnding,
    },
    ext::{
        Extension,
        pkix::{SubjectAltName, name},
    },
    request::{CertReq, CertReqInfo, ExtensionReq},
};

use super::*;
use crate::{AddOn, AddOnContext, Signing, UserError};

const GRPC: &str = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa";
const SIGNER: &str = "example.com/greeter";

struct Greeter;

impl AddOn for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }
    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }
    fn registrations(&self, place: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        let own = AgentSubject {
            user: format!("{}-greeter", place.cluster_name()),
            groups: vec!["greeters".to_owned()],
            organizational_units: vec!["north".to_owned()],
        };
        Ok(vec![
            Registration::kube_client(),
            Registration::custom_signer(SIGNER)
                .for_subject(own)
                .signed_by(Signing::with_secret("ca")),
        ])
    }
}

fn installed(cluster: &str) -> InstalledAddOn {
    let mut place = AddOnContext::new(cluster, "greeter");
    let mut of = (*place.cluster).clone();
    of.spec.hub_accepts_client = true;
    place.cluster = Arc::new(of);
    InstalledAddOn {
        add_on: Arc::new(Greeter),
        place,
    }
}

/// A request, and what a test may spoil of it.
struct Draft {
    name: String,
    cluster_label: String,
    addon_label: String,
    signer: String,
    user: String,
    groups: Vec<String>,
    annotation: Option<String>,
    usages: Vec<String>,
    subject: credential::csr::CertificateSubject,
}

fn draft() -> Draft {
    let place = installed("c1").place;
    let subject = AgentSubject::agent("c1", "greeter", &place.agent_name());
    Draft {
        name: "addon-c1-greeter-abcde".to_owned(),
        cluster_label: "c1".to_owned(),
        addon_label: "greeter".to_owned(),
        signer: identity::CLIENT_SIGNER.to_owned(),
        user: "system:open-cluster-management:c1:x7k2p".to_owned(),
        groups: vec![
            "system:open-cluster-management:c1".to_owned(),
            "system:open-cluster-management:managed-clusters".to_owned(),
            "system:authenticated".to_owned(),
        ],
        annotation: None,
        usages: CLIENT_USAGES.map(str::to_owned).to_vec(),
        subject: credential::csr::CertificateSubject {
            common_name: subject.user,
            organizations: subject.groups,
            organizational_units: Vec::new(),
            dns_names: vec!["greeter.addon.open-cluster-management.io".to_owned()],
        },
    }
}

fn custom() -> Draft {
    Draft {
        signer: SIGNER.to_owned(),
        subject: credential::csr::CertificateSubject {
            common_name: "c1-greeter".to_owned(),
            organizations: vec!["greeters".to_owned()],
            organizational_units: vec!["north".to_owned()],
            dns_names: vec!["greeter.addon.open-cluster-management.io".to_owned()],
        },
        ..draft()
    }
}

fn made(draft: &Draft) -> CertificateSigningRequest {
    let mut request = CertificateSigningRequest::default();
    request.metadata.name = Some(draft.name.clone());
    let labels = request.metadata.labels.get_or_insert_default();
    labels.insert(labels::CLUSTER_NAME.to_owned(), draft.cluster_label.clone());
    labels.insert(labels::ADDON_NAME.to_owned(), draft.addon_label.clone());
    if let Some(user) = &draft.annotation {
        let annotations = request.metadata.annotations.get_or_insert_default();
        annotations.insert(annotations::CSR_USER.to_owned(), user.clone());
    }
    request.spec.signer_name = draft.signer.clone();
    request.spec.username = Some(draft.user.clone());
    request.spec.groups = Some(draft.groups.clone());
    request.spec.usages = Some(draft.usages.clone());
    let pem = credential::csr::new_key_and_request(&draft.subject)
        .unwrap()
        .request_pem;
    request.spec.request = ByteString(pem.into_bytes());
    request
}

fn judged(draft: &Draft, installed: &InstalledAddOn) -> Result<(), String> {
    let request = made(draft);
    let asked = read(&request).map_err(str::to_owned)?;
    check(&request, &asked, installed, GRPC).map(drop)
}

fn why(spoil: impl FnOnce(&mut Draft)) -> String {
    let mut draft = draft();
    spoil(&mut draft);
    judged(&draft, &installed("c1")).expect_err("it must not pass")
}

fn why_custom(spoil: impl FnOnce(&mut Draft)) -> String {
    let mut draft = custom();
    spoil(&mut draft);
    judged(&draft, &installed("c1")).expect_err("it must not pass")
}

#[test]
fn the_agent_gets_the_identity_that_it_was_given() {
    assert_eq!(judged(&draft(), &installed("c1")), Ok(()));
    assert_eq!(judged(&custom(), &installed("c1")), Ok(()));
}

/// A place whose status says this of its registrations, and that a configuration is not yet the one that the hub has.
/// The cluster's agent may write both.
fn told(registrations: Value) -> InstalledAddOn {
    let mut installed = installed("c1");
    let mut place = installed.place.with_config(&ConfigMap::default());
    place.configs[0].spec_hash = "x".to_owned();
    let status = Arc::make_mut(&mut place.addon).status.get_or_insert_default();
    status.registrations = serde_json::from_value(registrations).unwrap();
    assert!(place.held().is_some());
    installed.place = place;
    installed
}

#[test]
fn what_an_agent_writes_about_itself_decides_nothing() {
    let admin = json!({"user": "admin", "groups": ["system:masters"]});
    let other = "example.com/other";
    let lies = [identity::CLIENT_SIGNER, SIGNER, other].map(|it| json!({"signerName": it, "subject": admin}));
    let installed = told(json!(lies));
    let why = |signer: &str| {
        let mut draft = draft();
        draft.signer = signer.to_owned();
        draft.subject.common_name = "admin".to_owned();
        draft.subject.organizations = vec!["system:masters".to_owned()];
        judged(&draft, &installed).expect_err("it must not pass")
    };
    let wrong = "its subject is not the one that its registration names";
    assert_eq!(why(identity::CLIENT_SIGNER), wrong);
    assert_eq!(why(SIGNER), wrong);
    assert_eq!(
        why(other),
        "add-on greeter has no registration with signer example.com/other"
    );
    // Who is whom its author says is let in, and signed for by its author's authority, though a change is held back.
    assert_eq!(judged(&draft(), &installed), Ok(()));
    assert_eq!(judged(&custom(), &installed), Ok(()));
}

#[test]
fn missing_subject_fields_are_filled_by_the_clusters_agent() {
    struct Brief(AgentSubject);
    impl AddOn for Brief {
        fn name(&self) -> &str {
            "greeter"
        }
        fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
            Ok(Vec::new())
        }
        fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
            Ok(vec![Registration::custom_signer(SIGNER).for_subject(self.0.clone())])
        }
    }
    let judge = |said: &AgentSubject, user: &str, groups: &[&str]| {
        let mut draft = custom();
        draft.subject.common_name = user.to_owned();
        draft.subject.organizations = groups.iter().map(|it| (*it).to_owned()).collect();
        draft.subject.organizational_units = said.organizational_units.clone();
        let installed = InstalledAddOn {
            add_on: Arc::new(Brief(said.clone())),
            ..installed("c1")
        };
        judged(&draft, &installed)
    };
    let (user, group) = (
        "system:open-cluster-management:cluster:c1:addon:greeter:agent:greeter",
        "system:open-cluster-management:cluster:c1:addon:greeter",
    );
    let unit = AgentSubject {
        organizational_units: vec!["north".to_owned()],
        ..AgentSubject::default()
    };
    assert_eq!(judge(&unit, user, &[group]), Ok(()));
    let named = AgentSubject {
        user: "me".to_owned(),
        ..AgentSubject::default()
    };
    assert_eq!(judge(&named, "me", &[group]), Ok(()));
    // It stays exact: what is left out is not anything.
    assert!(judge(&unit, "me", &[group]).is_err());
    assert!(judge(&unit, user, &["system:masters"]).is_err());
    assert!(judge(&named, user, &[group]).is_err());
    assert!(judge(&named, "me", &[]).is_err());
}

#[test]
fn a_sibling_with_a_longer_name_gets_nothing() {
    let sibling = |it: &mut Draft| {
        it.user = "system:open-cluster-management:c10:x7k2p".to_owned();
        it.groups[0] = "system:open-cluster-management:c10".to_owned();
    };
    assert_eq!(why(sibling), "it was not asked for by an agent of c1");
    assert_eq!(why_custom(sibling), "it was not asked for by an agent of c1");
}

#[test]
fn other_requesters_get_no_certificate() {
    for user in [
        "admin",
        "system:open-cluster-management:c1",
        "system:open-cluster-management:c1:",
        "system:open-cluster-management:c1:a:b",
        "system:open-cluster-management:cluster:c1:addon:greeter:agent:x",
    ] {
        let spoiled = why(|it| it.user = user.to_owned());
        assert_eq!(spoiled, "it was not asked for by an agent of c1", "{user}");
    }
    // The right name without the group that the hub gives to agents of the cluster.
    let spoiled = why(|it| it.groups.remove(0).clear());
    assert_eq!(spoiled, "it was not asked for by an agent of c1");
}

#[test]
fn labels_of_another_add_on_or_cluster_are_noticed() {
    assert_eq!(
        why(|it| it.addon_label = "other".to_owned()),
        "its labels name another add-on"
    );
    assert_eq!(
        why(|it| it.cluster_label = "c10".to_owned()),
        "its labels name another add-on"
    );
    assert_eq!(
        why(|it| it.name = "c1-greeter".to_owned()),
        "its labels name another add-on"
    );
}

#[test]
fn a_subject_that_differs_in_any_field_is_refused() {
    let wrong = "its subject is not the one that its registration names";
    assert_eq!(why(|it| it.subject.organizations[0].push('0')), wrong);
    assert_eq!(
        why(|it| it.subject.organizations.push("system:masters".to_owned())),
        wrong
    );
    assert_eq!(why(|it| it.subject.organizations.truncate(1)), wrong);
    assert_eq!(why(|it| it.subject.common_name.push('0')), wrong);
    assert_eq!(why(|it| it.subject.organizational_units.push("x".to_owned())), wrong);
    assert_eq!(why_custom(|it| it.subject.common_name = "c2-greeter".to_owned()), wrong);
    assert_eq!(why_custom(|it| it.subject.organizational_units.clear()), wrong);
}

#[test]
fn the_identity_for_one_signer_is_none_for_another() {
    let wrong = "its subject is not the one that its registration names";
    assert_eq!(why(|it| it.signer = SIGNER.to_owned()), wrong);
    assert_eq!(
        why(|it| it.signer = "example.com/other".to_owned()),
        "add-on greeter has no registration with signer example.com/other"
    );
}

#[test]
fn names_and_usages_beyond_an_agents_are_noticed() {
    assert_eq!(
        why_custom(|it| it.subject.dns_names.push("bank.example.com".to_owned())),
        "it has other alternative names than greeter.addon.open-cluster-management.io"
    );
    assert_eq!(
        why(|it| it.usages.push("server auth".to_owned())),
        "it is to be used for server auth"
    );
    assert_eq!(
        why_custom(|it| it.usages.push("cert sign".to_owned())),
        "it is to be used for cert sign"
    );
    assert_eq!(why(|it| it.usages.truncate(2)), "it is not to be used by a client");
}

/// The request of a draft with other attributes, signed with its key.
fn remade(draft: &Draft, spoil: impl FnOnce(&mut CertReqInfo)) -> CertificateSigningRequest {
    let made_first = credential::csr::new_key_and_request(&draft.subject).unwrap();
    let key = SigningKey::from(SecretKey::from_sec1_pem(&made_first.key_pem).unwrap());
    let mut request = <CertReq as x509_cert::der::DecodePem>::from_pem(&made_first.request_pem).unwrap();
    spoil(&mut request.info);
    let signature: DerSignature = key.sign(&request.info.to_der().unwrap());
    request.signature = BitString::from_bytes(&signature.to_der().unwrap()).unwrap();
    let mut made = made(draft);
    made.spec.request = ByteString(request.to_pem(LineEnding::LF).unwrap().into_bytes());
    made
}

/// What asks for a certificate in another's name.
fn other_names(value: &[u8]) -> Extension {
    Extension {
        extn_id: SubjectAltName::OID,
        critical: false,
        extn_value: OctetString::new(value).unwrap(),
    }
}

fn dns(name: &str) -> Vec<u8> {
    let name = name::GeneralName::DnsName(Ia5String::new(name).unwrap());
    SubjectAltName(vec![name]).to_der().unwrap()
}

fn asking_for(extensions: &[Extension]) -> Attribute {
    ExtensionReq(extensions.to_vec()).try_into().unwrap()
}

#[tokio::test]
async fn names_that_a_signer_could_read_otherwise_are_noticed() {
    let own = || other_names(&dns("greeter.addon.open-cluster-management.io"));
    let other = || other_names(&dns("bank.example.com"));
    let twice = remade(&draft(), |it| {
        it.attributes.insert(asking_for(&[other()])).unwrap();
    });
    let two_lists = remade(&draft(), |it| {
        let mut both = asking_for(&[own()]);
        let values = asking_for(&[other()]).values;
        both.values.insert(values.get(0).unwrap().clone()).unwrap();
        it.attributes = Default::default();
        it.attributes.insert(both).unwrap();
    });
    let two_names = remade(&draft(), |it| {
        it.attributes = Default::default();
        it.attributes.insert(asking_for(&[own(), other()])).unwrap();
    });
    let unreadable = remade(&draft(), |it| {
        it.attributes = Default::default();
        it.attributes.insert(asking_for(&[other_names(b"\x30\x80")])).unwrap();
    });
    let lists = "it asks for extensions more than once";
    assert_eq!(read(&twice).err(), Some(lists));
    assert_eq!(read(&two_lists).err(), Some(lists));
    assert_eq!(
        read(&two_names).err(),
        Some("it asks for alternative names more than once")
    );
    assert_eq!(read(&unreadable).err(), Some("its alternative names cannot be read"));
    let untouched = remade(&draft(), |_| {});
    assert_eq!(read(&untouched).map(|it| it.names.len()), Ok(1));
    // The signer of the embedded API reads none of them either.
    let site = testkit::Site::start().await.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(site.client());
    for spoiled in [twice, two_lists, two_names, unreadable] {
        let answer = requests.create(&Default::default(), &spoiled).await;
        let refused = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 422);
        assert!(refused, "{answer:?}");
    }
    requests.create(&Default::default(), &untouched).await.unwrap();
    site.stop().await;
}

#[test]
fn a_request_over_grpc_is_judged_by_its_annotated_user() {
    let mut over_grpc = draft();
    over_grpc.user = GRPC.to_owned();
    over_grpc.groups = vec!["system:serviceaccounts".to_owned()];
    assert!(judged(&over_grpc, &installed("c1")).is_err());
    over_grpc.annotation = Some("system:open-cluster-management:c10:x".to_owned());
    assert!(judged(&over_grpc, &installed("c1")).is_err());
    over_grpc.annotation = Some("system:open-cluster-management:c1:x".to_owned());
    assert_eq!(judged(&over_grpc, &installed("c1")), Ok(()));
    // Anybody can write an annotation; only that server is believed.
    let lied = why(|it| {
        it.user = "system:open-cluster-management:c10:x".to_owned();
        it.annotation = Some("system:open-cluster-management:c1:x".to_owned());
    });
    assert_eq!(lied, "it was not asked for by an agent of c1");
}

#[test]
fn a_deleted_add_on_or_unaccepted_cluster_gets_no_certificate() {
    let mut gone = installed("c1");
    let mut addon = (*gone.place.addon).clone();
    addon.metadata.deletion_timestamp = serde_json::from_value("2026-01-01T00:00:00Z".into()).unwrap();
    gone.place.addon = Arc::new(addon);
    assert_eq!(
        judged(&draft(), &gone).unwrap_err(),
        "add-on greeter on c1 is being deleted"
    );
    let mut denied = installed("c1");
    let mut cluster = (*denied.place.cluster).clone();
    cluster.spec.hub_accepts_client = false;
    denied.place.cluster = Arc::new(cluster);
    assert_eq!(judged(&draft(), &denied).unwrap_err(), "cluster c1 is not accepted");
}

#[test]
fn a_request_not_signed_with_its_own_key_is_refused() {
    let stranger = made(&custom());
    let signature = |it: &CertificateSigningRequest| {
        let pem = String::from_utf8(it.spec.request.0.clone()).unwrap();
        <CertReq as x509_cert::der::DecodePem>::from_pem(&pem).unwrap()
    };
    let mut forged = signature(&made(&draft()));
    forged.signature = signature(&stranger).signature;
    let mut request = made(&draft());
    request.spec.request = ByteString(forged.to_pem(LineEnding::LF).unwrap().into_bytes());
    assert_eq!(read(&request), Err("it is not signed with its own key"));
}

#[test]
fn what_is_no_request_is_not_read() {
    let mut request = made(&draft());
    request.spec.request =
        ByteString(b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n".to_vec());
    assert!(read(&request).is_err());
    request.spec.request = ByteString(b"hello".to_vec());
    assert_eq!(read(&request), Err("it does not hold one PEM certificate request"));
    let twice = [made(&draft()).spec.request.0, made(&draft()).spec.request.0].concat();
    request.spec.request = ByteString(twice);
    assert_eq!(read(&request), Err("it does not hold one PEM certificate request"));
}
