//! What a certificate request asks for.

use std::collections::BTreeSet;

use x509_cert::{
    der::{Decode, oid::AssociatedOid},
    request::{CertReq, ExtensionReq},
};
use x509_parser::{
    certification_request::{X509CertificationRequest, X509CertificationRequestInfo},
    cri_attributes::ParsedCriAttribute,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::{
        OID_X509_COMMON_NAME, OID_X509_EXT_SUBJECT_ALT_NAME, OID_X509_ORGANIZATION_NAME, OID_X509_ORGANIZATIONAL_UNIT,
    },
    pem::Pem,
    prelude::FromDer,
};

use super::{is_only_one, is_signed_by_its_key};

/// What the certificate of a client may be used for.
pub const CLIENT_USAGES: [&str; 3] = ["digital signature", "key encipherment", "client auth"];

/// What a request asks for, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The common name.
    pub user: String,
    /// The organizations.
    pub groups: BTreeSet<String>,
    /// The organizational units.
    pub organizational_units: BTreeSet<String>,
    /// The alternative names; `None` stands for one that is no DNS name.
    pub names: Vec<Option<String>>,
    /// The subject as it was encoded.
    pub subject_der: Vec<u8>,
    /// The public key as it was encoded.
    pub public_key_der: Vec<u8>,
}

impl Asked {
    /// Whether it is for this user of these groups and units, to the letter and for nobody else: one more is as wrong
    /// as one less, and what only begins alike is another. Their order says nothing.
    pub fn is_for<'a>(
        &self,
        user: &str,
        groups: impl IntoIterator<Item = &'a str>,
        organizational_units: impl IntoIterator<Item = &'a str>,
    ) -> bool {
        self.user == user && are(&self.groups, groups) && are(&self.organizational_units, organizational_units)
    }
}

fn are<'a>(asked: &BTreeSet<String>, wanted: impl IntoIterator<Item = &'a str>) -> bool {
    let wanted: BTreeSet<&str> = wanted.into_iter().collect();
    wanted.len() == asked.len() && wanted.iter().all(|it| asked.contains(*it))
}

/// Takes a PEM certificate request apart. What cannot be read, or could be read in two ways, is refused, and so is one
/// that is not signed with the key that it asks for.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn read(pem: &[u8]) -> Result<Asked, &'static str> {
    if !is_only_one(pem) {
        return Err("it does not hold one PEM certificate request");
    }
    let pem = Pem::iter_from_buffer(pem)
        .next()
        .and_then(Result::ok)
        .filter(|it| it.label == "CERTIFICATE REQUEST")
        .ok_or("it holds no PEM certificate request")?;
    let (rest, parsed) =
        X509CertificationRequest::from_der(&pem.contents).map_err(|_| "its certificate request cannot be read")?;
    if !rest.is_empty() {
        return Err("its certificate request cannot be read");
    }
    let info = &parsed.certification_request_info;
    let mut users = Vec::new();
    let (mut groups, mut organizational_units) = (BTreeSet::new(), BTreeSet::new());
    for attribute in info.subject.iter().flat_map(|it| it.iter()) {
        let value = attribute.as_str().map_err(|_| "its subject cannot be read")?.to_owned();
        let oid = attribute.attr_type();
        if *oid == OID_X509_COMMON_NAME {
            users.push(value);
        } else if *oid == OID_X509_ORGANIZATION_NAME {
            groups.insert(value);
        } else if *oid == OID_X509_ORGANIZATIONAL_UNIT {
            organizational_units.insert(value);
        } else {
            return Err("its subject has more than names, organizations and organizational units");
        }
    }
    if users.len() != 1 {
        return Err("it does not have exactly one common name");
    }
    if !asks_once(&pem.contents) {
        return Err("it asks for extensions more than once");
    }
    let names = names(info)?;
    if !is_signed_by_its_key(&pem.contents) {
        return Err("it is not signed with its own key");
    }
    Ok(Asked {
        user: users.swap_remove(0),
        groups,
        organizational_units,
        names,
        subject_der: info.subject.as_raw().to_vec(),
        public_key_der: info.subject_pki.raw.to_vec(),
    })
}

/// Whether there is at most one list of extensions. Of two, whoever signs may take the one that we have not looked at.
fn asks_once(der: &[u8]) -> bool {
    let Ok(request) = CertReq::from_der(der) else {
        return false;
    };
    let attributes = request.info.attributes.iter();
    let lists = attributes
        .filter(|it| it.oid == ExtensionReq::OID)
        .map(|it| it.values.len());
    lists.sum::<usize>() <= 1
}

/// The alternative names, which are said once and can be read: what we cannot read a signer may.
fn names(info: &X509CertificationRequestInfo<'_>) -> Result<Vec<Option<String>>, &'static str> {
    let mut all = Vec::new();
    for attribute in info.iter_attributes() {
        let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
            continue;
        };
        let extensions = requested.extensions.iter();
        all.extend(extensions.filter(|it| it.oid == OID_X509_EXT_SUBJECT_ALT_NAME));
    }
    let alternative = match all.as_slice() {
        [] => return Ok(Vec::new()),
        [one] => one.parsed_extension(),
        _ => return Err("it asks for alternative names more than once"),
    };
    let ParsedExtension::SubjectAlternativeName(alternative) = alternative else {
        return Err("its alternative names cannot be read");
    };
    let names = alternative.general_names.iter().map(|it| match it {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    Ok(names.collect())
}

/// Whether these usages are those of a client's certificate, and of it alone; `also` are others that may be among them.
///
/// # Errors
/// What is wrong with them, as the end of a sentence.
pub fn check_usages(usages: &[String], also: &[&str]) -> Result<(), String> {
    let allowed = |it: &str| CLIENT_USAGES.contains(&it) || also.contains(&it);
    if let Some(other) = usages.iter().find(|it| !allowed(it)) {
        return Err(format!("it is to be used for {other}"));
    }
    if !usages.iter().any(|it| it == "client auth") {
        return Err("it is not to be used by a client".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_compared_to_the_letter() {
        let set = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let asked = Asked {
            user: "team:c1:agent".to_owned(),
            groups: set(&["team", "team:c1"]),
            organizational_units: set(&["unit"]),
            names: Vec::new(),
            subject_der: Vec::new(),
            public_key_der: Vec::new(),
        };
        assert!(asked.is_for("team:c1:agent", ["team:c1", "team"], ["unit"]));
        for (user, groups, units) in [
            // What only begins alike, either way.
            ("team:c1:agent2", vec!["team", "team:c1"], vec!["unit"]),
            ("team:c1", vec!["team", "team:c1"], vec!["unit"]),
            ("team:c1:agent", vec!["team", "team:c10"], vec!["unit"]),
            ("Team:c1:agent", vec!["team", "team:c1"], vec!["unit"]),
            // More than is wanted, and less.
            ("team:c1:agent", vec!["team:c1"], vec!["unit"]),
            ("team:c1:agent", vec!["team", "team:c1", "admins"], vec!["unit"]),
            ("team:c1:agent", vec!["team", "team:c1"], vec![]),
            ("team:c1:agent", vec!["team", "team:c1"], vec!["unit", "other"]),
        ] {
            let is_for = asked.is_for(user, groups.iter().copied(), units.iter().copied());
            assert!(!is_for, "{user} {groups:?} {units:?}");
        }
    }

    #[test]
    fn a_client_certificate_request_allows_only_client_usages() {
        let check = |usages: &[&str], also: &[&str]| {
            let usages: Vec<String> = usages.iter().map(|it| (*it).to_owned()).collect();
            check_usages(&usages, also)
        };
        assert_eq!(check(&CLIENT_USAGES, &[]), Ok(()));
        assert_eq!(check(&["client auth", "server auth"], &["server auth"]), Ok(()));
        assert_eq!(
            check(&["client auth", "server auth"], &[]),
            Err("it is to be used for server auth".to_owned())
        );
        assert_eq!(
            check(&["digital signature"], &[]),
            Err("it is not to be used by a client".to_owned())
        );
    }
}
