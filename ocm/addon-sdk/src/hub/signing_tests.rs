use kube::Client;
use serde_json::json;

use super::*;

fn request(name: &str) -> CertificateSigningRequest {
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"request": "", "signerName": "example.com/greeter", "usages": []},
    }))
    .unwrap()
}

fn seen(verdict: Verdict, is_told: bool) -> Seen {
    Seen {
        now: "2026-01-01T12:00:00Z".parse().unwrap(),
        request: Some(Arc::new(request("addon-c1-greeter-1"))),
        verdict: Some(verdict),
        is_told,
    }
}

fn without_authority(is_told: bool) -> Plan {
    let mut addon = ManagedClusterAddOn::new("greeter", Default::default());
    addon.metadata.namespace = Some("c1".to_owned());
    let verdict = Verdict::NoAuthority {
        addon: Arc::new(addon),
        why: "there is no Secret default/greeter-ca, the authority of signer example.com/greeter".to_owned(),
    };
    Signer::plan(&seen(verdict, is_told))
}

#[test]
fn that_there_is_no_authority_is_told_once_at_the_add_on() {
    let plan = without_authority(false);
    let Step::Event(event) = &plan.stages[0][0] else {
        panic!("{plan}");
    };
    assert_eq!(
        (event.namespace.as_str(), event.reason.as_str()),
        ("c1", "SigningAuthorityMissing")
    );
    assert_eq!(
        event.note,
        "CSR addon-c1-greeter-1 cannot be signed: there is no Secret default/greeter-ca, the authority of signer \
         example.com/greeter"
    );
    let again = without_authority(true);
    assert!(again.is_empty(), "{again}");
    assert!(
        again
            .to_string()
            .contains("refuses: there is no Secret default/greeter-ca"),
        "{again}"
    );
}

#[tokio::test]
async fn only_the_secret_that_a_request_waits_for_is_watched_and_only_so_long() {
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let stop = CancellationToken::new();
    let authorities = Authorities::new(client, Queue::new(), stop.clone());
    authorities.wait("one", "default", "a");
    authorities.wait("two", "default", "a");
    assert_eq!(authorities.len(), 1);
    // The add-on names another authority.
    authorities.wait("two", "vault", "a");
    assert_eq!(authorities.len(), 2);
    authorities.done("one");
    assert_eq!(authorities.len(), 1);
    authorities.done("two");
    authorities.done("never heard of");
    assert_eq!(authorities.len(), 0);
    stop.cancel();
}
