use std::time::Duration;

use ocm_api::addon::v1alpha1::ManagedClusterAddOn;
use ocm_reconcile::{Caches, Step};
use serde_json::json;

use super::*;
use crate::hub::{custom_signer::DueCertificate, request::Asked};

const WHY: &str = "there is no Secret default/greeter-ca, the authority of signer example.com/greeter";

fn planned(told: Option<&LastWarning>) -> Plan {
    let request = json!({
        "metadata": {"name": "addon-c1-greeter-1"},
        "spec": {"request": "", "signerName": "example.com/greeter", "usages": []},
    });
    let mut addon = ManagedClusterAddOn::new("greeter", Default::default());
    addon.metadata.namespace = Some("c1".to_owned());
    let due = DueCertificate {
        addon: Arc::new(addon),
        asked: Asked {
            user: "greeter".to_owned(),
            groups: Default::default(),
            organizational_units: Default::default(),
            names: Vec::new(),
            subject_der: Vec::new(),
            public_key_der: Vec::new(),
        },
        lifetime: Duration::from_secs(3600),
        signer: "example.com/greeter".to_owned(),
        namespace: "default".to_owned(),
        secret: "greeter-ca".to_owned(),
    };
    let request = serde_json::from_value(request).unwrap();
    let failed = Err(StepError::Own(WHY.to_owned()));
    concluded(&request, &due, &failed, told, "2026-01-01T12:00:00Z".parse().unwrap())
}

#[test]
fn a_missing_signing_authority_is_reported_by_one_event() {
    let plan = planned(None);
    let Step::Event(event) = &plan.stages[0][0] else {
        panic!("{plan}");
    };
    assert_eq!(
        (event.namespace.as_str(), event.reason.as_str()),
        ("c1", "SigningAuthorityMissing")
    );
    assert_eq!(event.note, format!("CSR addon-c1-greeter-1 cannot be signed: {WHY}"));
    let told = plan.worked_out::<NoAuthority>().unwrap().told.clone();
    let again = planned(Some(&told));
    assert!(again.is_empty(), "{again}");
    assert!(
        again
            .to_string()
            .contains("refuses: there is no Secret default/greeter-ca"),
        "{again}"
    );
    // It goes on being what was told when it was.
    assert_eq!(again.worked_out::<NoAuthority>().unwrap().told, told);
    let another = ("the authority has expired".to_owned(), told.1);
    assert!(!planned(Some(&another)).is_empty());
    let long_ago = (WHY.to_owned(), "2026-01-01T11:30:00Z".parse().unwrap());
    assert!(!planned(Some(&long_ago)).is_empty());
}

#[test]
fn only_secrets_of_waiting_requests_are_watched() {
    let authorities = Authorities::of(&Caches::unfed());
    let wait = |request: &str, namespace: &str, name: &str| {
        authorities.wait(&NoAuthority {
            request: request.to_owned(),
            secret: (namespace.to_owned(), name.to_owned()),
            told: (WHY.to_owned(), Timestamp::UNIX_EPOCH),
        });
    };
    wait("one", "default", "a");
    wait("two", "default", "a");
    assert_eq!(authorities.len(), 1);
    // The add-on names another authority.
    wait("two", "vault", "a");
    assert_eq!(authorities.len(), 2);
    authorities.done("one");
    assert_eq!(authorities.len(), 1);
    authorities.done("two");
    authorities.done("never heard of");
    assert_eq!(authorities.len(), 0);
}
