//! Keys, certificates, ciphers and password hashes. Keys are made by the cryptographic library from its own randomness.

use std::any::Any;
use std::rc::Rc;

use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use super::certificates::{self, Names};
use super::encoding::{bytes, decode_base64};
use crate::exec::Call;
use crate::functions::Functions;
use crate::gofmt::display;
use crate::sprig::strings::int;
use crate::value::{Object, Value};

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("genPrivateKey", "string", |_, a| {
        let kind = display(&a[0]);
        let key = match kind.as_str() {
            "" | "rsa" => PrivateKey::rsa(KeySize::Rsa4096),
            "ecdsa" => PrivateKey::ecdsa(),
            "ed25519" => PrivateKey::ed25519(),
            "dsa" => return Ok(Value::from("failed to generate private key: dsa is not supported")),
            other => return Ok(Value::from(format!("Unknown type {other}"))),
        };
        Ok(Value::from(key?.pem()?))
    });
    functions.add("genCA", "string int", |call, a| {
        authority(call, a, PrivateKey::rsa(KeySize::Rsa2048)?)
    });
    functions.add("genCAWithKey", "string int string", |call, a| {
        authority(call, a, PrivateKey::parse(&display(&a[2])).map_err(parsing)?)
    });
    functions.add("genSelfSignedCert", "string list list int", |call, a| {
        self_signed(call, a, PrivateKey::rsa(KeySize::Rsa2048)?)
    });
    functions.add("genSelfSignedCertWithKey", "string list list int string", |call, a| {
        self_signed(call, a, PrivateKey::parse(&display(&a[4])).map_err(parsing)?)
    });
    functions.add("genSignedCert", "string list list int any", |call, a| {
        signed(call, a, PrivateKey::rsa(KeySize::Rsa2048)?)
    });
    functions.add("genSignedCertWithKey", "string list list int any string", |call, a| {
        signed(call, a, PrivateKey::parse(&display(&a[5])).map_err(parsing)?)
    });
    functions.add("buildCustomCert", "string string", |_, a| {
        let decoded = |at: usize, what: &str| {
            let data = decode_base64(bytes(&a[at])).map_err(|_| format!("unable to decode base64 {what}"))?;
            Ok::<_, String>(String::from_utf8_lossy(&data).into_owned())
        };
        let (cert, key) = (decoded(0, "certificate")?, decoded(1, "private key")?);
        let (_, block) =
            x509_parser::pem::parse_x509_pem(cert.as_bytes()).map_err(|_| "unable to decode certificate".to_owned())?;
        block
            .parse_x509()
            .map_err(|error| format!("error parsing certificate: decodedCert.Bytes: {error}"))?;
        PrivateKey::parse(&key).map_err(|error| format!("error parsing private key: {error}"))?;
        Ok(pair(cert, key))
    });
    functions.add("encryptAES", "string string", encrypt);
    functions.add("decryptAES", "string string", decrypt);
    functions.add("bcrypt", "string", |call, a| {
        Ok(Value::from(bcrypt(call, bytes(&a[0]))))
    });
    functions.add("htpasswd", "string string", |call, a| {
        let user = display(&a[0]);
        Ok(Value::from(if user.contains(':') {
            format!("invalid username: {user}")
        } else {
            format!("{user}:{}", bcrypt(call, bytes(&a[1])))
        }))
    });
}

fn parsing(message: String) -> String {
    format!("parsing private key: {message}")
}

/// A private key of one of the kinds that certificates are made with.
pub(super) enum PrivateKey {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

fn failed<E>(_: E) -> String {
    "failed to generate private key".to_owned()
}

impl PrivateKey {
    fn rsa(size: KeySize) -> Result<PrivateKey, String> {
        RsaKeyPair::generate(size).map(PrivateKey::Rsa).map_err(failed)
    }

    fn ecdsa() -> Result<PrivateKey, String> {
        EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
            .map(PrivateKey::Ecdsa)
            .map_err(failed)
    }

    fn ed25519() -> Result<PrivateKey, String> {
        Ed25519KeyPair::generate().map(PrivateKey::Ed25519).map_err(failed)
    }

    fn parse(pem: &str) -> Result<PrivateKey, String> {
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| "no PEM data in input")?;
        let der = &block.contents;
        let ecdsa = &ECDSA_P256_SHA256_ASN1_SIGNING;
        match block.label.as_str() {
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(der)
                .map(PrivateKey::Rsa)
                .or_else(|_| EcdsaKeyPair::from_pkcs8(ecdsa, der).map(PrivateKey::Ecdsa))
                .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(PrivateKey::Ed25519))
                .map_err(|error| format!("decoding PEM as PKCS#8: {error}")),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der)
                .map(PrivateKey::Rsa)
                .map_err(|error| format!("parsing RSA private key from PEM: {error}")),
            "EC PRIVATE KEY" => EcdsaKeyPair::from_private_key_der(ecdsa, der)
                .map(PrivateKey::Ecdsa)
                .map_err(|error| format!("parsing EC private key from PEM: {error}")),
            other => match other.strip_suffix(" PRIVATE KEY") {
                Some(kind) => Err(format!("invalid private key type {kind}")),
                None => Err(format!("no private key data in PEM block of type {other}")),
            },
        }
    }

    fn pem(&self) -> Result<String, String> {
        Ok(match self {
            PrivateKey::Rsa(key) => {
                let pkcs8 = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(key).map_err(failed)?;
                let inner = certificates::private_key_of(pkcs8.as_ref()).ok_or_else(|| failed(()))?;
                certificates::pem("RSA PRIVATE KEY", inner)
            }
            PrivateKey::Ecdsa(key) => {
                let der = key.private_key().as_der().map_err(failed)?;
                certificates::pem("EC PRIVATE KEY", der.as_ref())
            }
            PrivateKey::Ed25519(key) => {
                let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(key).map_err(failed)?;
                certificates::pem("PRIVATE KEY", der.as_ref())
            }
        })
    }

    /// The raw public key, as it stands in a certificate's bit string.
    pub(super) fn public(&self) -> &[u8] {
        match self {
            PrivateKey::Rsa(key) => key.public_key().as_ref(),
            PrivateKey::Ecdsa(key) => key.public_key().as_ref(),
            PrivateKey::Ed25519(key) => key.public_key().as_ref(),
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let random = SystemRandom::new();
        let refused = |_| "error creating certificate: the key does not sign".to_owned();
        match self {
            PrivateKey::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map_err(refused)?;
                Ok(signature)
            }
            PrivateKey::Ecdsa(key) => Ok(key.sign(&random, message).map_err(refused)?.as_ref().to_vec()),
            PrivateKey::Ed25519(key) => Ok(key.try_sign(message).map_err(refused)?.as_ref().to_vec()),
        }
    }
}

/// What `genCA` and its kin answer.
struct Pair {
    cert: String,
    key: String,
}

fn pair(cert: String, key: String) -> Value {
    Value::Object(Rc::new(Pair { cert, key }))
}

impl Object for Pair {
    fn type_name(&self) -> &str {
        "sprig.certificate"
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::from(self.cert.as_str())),
            "Key" => Some(Value::from(self.key.as_str())),
            _ => None,
        }
    }
    fn display(&self) -> String {
        format!("{{{} {}}}", self.cert, self.key)
    }
    fn to_json(&self) -> serde_json::Value {
        json!({"Cert": self.cert, "Key": self.key})
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn texts(value: &Value, refusal: &str) -> Result<Vec<String>, String> {
    let items = super::lists::elements(value).unwrap_or_default();
    items
        .iter()
        .map(|it| match it.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(format!("{refusal}: {} is not a string", display(it))),
        })
        .collect()
}

fn names(a: &[Value]) -> Result<Names, String> {
    Ok(Names {
        addresses: texts(&a[1], "error parsing ip")?
            .iter()
            .map(|it| it.parse().map_err(|_| format!("error parsing ip: {it}")))
            .collect::<Result<_, _>>()?,
        hosts: texts(&a[2], "error processing alternate dns name")?,
    })
}

fn authority(call: &Call<'_>, a: &[Value], key: PrivateKey) -> Outcome {
    let made = certificates::make(call, &display(&a[0]), int(&a[1]), &Names::default(), true, &key, None)?;
    Ok(pair(made, key.pem()?))
}

fn self_signed(call: &Call<'_>, a: &[Value], key: PrivateKey) -> Outcome {
    let made = certificates::make(call, &display(&a[0]), int(&a[3]), &names(a)?, false, &key, None)?;
    Ok(pair(made, key.pem()?))
}

fn signed(call: &Call<'_>, a: &[Value], key: PrivateKey) -> Outcome {
    let signer = match &a[4] {
        Value::Object(object) => object.as_any().downcast_ref::<Pair>(),
        _ => None,
    };
    let Some(signer) = signer else {
        let got = a[4].type_name();
        return Err(format!("wrong type for value; expected sprig.certificate; got {got}"));
    };
    let (_, block) = x509_parser::pem::parse_x509_pem(signer.cert.as_bytes())
        .map_err(|_| "unable to decode certificate".to_owned())?;
    let parent = block
        .parse_x509()
        .map_err(|error| format!("error parsing certificate: decodedSignerCert.Bytes: {error}"))?;
    let signing = PrivateKey::parse(&signer.key).map_err(|error| format!("error parsing private key: {error}"))?;
    let issuer = certificates::Issuer {
        subject: parent.subject().as_raw(),
        key_id: certificates::key_id(&parent),
        key: &signing,
    };
    let made = certificates::make(call, &display(&a[0]), int(&a[3]), &names(a)?, false, &key, Some(issuer))?;
    Ok(pair(made, key.pem()?))
}

// sprig pads the password with zeros to a key, and so do we: it is a format, not a recommendation.
fn cipher_key(password: &[u8]) -> Result<UnboundCipherKey, String> {
    let mut key = [0; 32];
    let used = password.len().min(32);
    key[..used].copy_from_slice(&password[..used]);
    UnboundCipherKey::new(&AES_256, &key).map_err(|_| "the key is refused".to_owned())
}

fn encrypt(call: &Call<'_>, a: &[Value]) -> Outcome {
    let mut content = bytes(&a[1]).to_vec();
    if content.is_empty() {
        return Ok(Value::from(""));
    }
    let padding = 16 - content.len() % 16;
    content.extend(std::iter::repeat_n(padding as u8, padding));
    let mut start = [0; 16];
    call.fill_random(&mut start);
    let key = EncryptingKey::cbc(cipher_key(bytes(&a[0]))?).map_err(|_| "the key is refused".to_owned())?;
    key.less_safe_encrypt(&mut content, EncryptionContext::Iv128(FixedLength::from(start)))
        .map_err(|_| "the text could not be encrypted".to_owned())?;
    Ok(Value::from(crate::base64_of(&[&start[..], &content].concat())))
}

fn decrypt(_: &Call<'_>, a: &[Value]) -> Outcome {
    let encoded = bytes(&a[1]);
    if encoded.is_empty() {
        return Ok(Value::from(""));
    }
    let all = decode_base64(encoded).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    let Some((start, content)) = all.split_first_chunk::<16>() else {
        return Err(format!(
            "runtime error: slice bounds out of range [:16] with capacity {}",
            all.len()
        ));
    };
    if content.is_empty() || !content.len().is_multiple_of(16) {
        return Err("crypto/cipher: input not full blocks".to_owned());
    }
    let mut content = content.to_vec();
    let key = DecryptingKey::cbc(cipher_key(bytes(&a[0]))?).map_err(|_| "the key is refused".to_owned())?;
    let plain = key
        .decrypt(&mut content, DecryptionContext::Iv128(FixedLength::from(*start)))
        .map_err(|_| "the text could not be decrypted".to_owned())?;
    let padding = usize::from(plain.last().copied().unwrap_or(0));
    match plain.len().checked_sub(padding) {
        Some(length) => Ok(Value::string_of_bytes(plain[..length].to_vec())),
        None => Err(format!(
            "runtime error: slice bounds out of range [:{}]",
            plain.len() as i64 - padding as i64
        )),
    }
}

/// What Go's library takes as its default cost.
const BCRYPT_COST: u32 = 10;

fn bcrypt(call: &Call<'_>, password: &[u8]) -> String {
    if password.len() > 72 {
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".to_owned();
    }
    let mut salt = [0; 16];
    call.fill_random(&mut salt);
    match bcrypt::hash_with_salt(password, BCRYPT_COST, salt) {
        Ok(parts) => parts.format_for_version(bcrypt::Version::TwoA),
        Err(error) => format!("failed to encrypt string with bcrypt: {error}"),
    }
}
