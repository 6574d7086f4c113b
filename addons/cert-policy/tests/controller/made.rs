//! Certificates made for tests.

use std::{str::FromStr, time::Duration};

use p256::ecdsa::{DerSignature, SigningKey};
use x509_cert::{
    TbsCertificate,
    builder::{Builder, CertificateBuilder, Result, profile::BuilderProfile},
    der::{
        Decode, Encode, EncodePem,
        asn1::{GeneralizedTime, Ia5String, OctetString},
        oid::AssociatedOid,
    },
    ext::{
        Extension,
        pkix::{BasicConstraints, SubjectAltName, name::GeneralName},
    },
    name::Name,
    serial_number::SerialNumber,
    spki::{EncodePublicKey, SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef},
    time::{Time, Validity},
};

/// What a certificate is made of; times in seconds since 1970.
#[derive(Clone, Copy, Default)]
pub struct Made<'a> {
    pub from: u64,
    pub until: u64,
    pub ca: bool,
    pub names: &'a [&'a str],
}

impl BuilderProfile for Made<'_> {
    fn get_issuer(&self, _: &Name) -> Name {
        self.get_subject()
    }

    fn get_subject(&self) -> Name {
        Name::from_str("CN=made").unwrap()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        _: &TbsCertificate,
    ) -> Result<Vec<Extension>> {
        let basic = BasicConstraints {
            ca: self.ca,
            path_len_constraint: None,
        };
        let mut all = vec![extension(&basic)];
        if !self.names.is_empty() {
            let names = self
                .names
                .iter()
                .map(|it| GeneralName::DnsName(Ia5String::new(it).unwrap()));
            all.push(extension(&SubjectAltName(names.collect())));
        }
        Ok(all)
    }
}

fn extension<T: AssociatedOid + Encode>(value: &T) -> Extension {
    Extension {
        extn_id: T::OID,
        critical: false,
        extn_value: OctetString::new(value.to_der().unwrap()).unwrap(),
    }
}

fn time(seconds: u64) -> Time {
    Time::GeneralTime(GeneralizedTime::from_unix_duration(Duration::from_secs(seconds)).unwrap())
}

/// The certificate in PEM.
pub fn pem(made: &Made<'_>) -> String {
    let key = SigningKey::from_slice(&[7; 32]).unwrap();
    let public = key.verifying_key().to_public_key_der().unwrap();
    let public = SubjectPublicKeyInfoOwned::from_der(public.as_bytes()).unwrap();
    let validity = Validity::new(time(made.from), time(made.until));
    let serial = SerialNumber::new(&[1]).unwrap();
    let builder = CertificateBuilder::new(*made, serial, validity, public).unwrap();
    let certificate = builder.build::<_, DerSignature>(&key).unwrap();
    certificate.to_pem(Default::default()).unwrap()
}
