//! `$ocm_encrypted:` values: AES-CBC with PKCS#7 padding and one initialization vector for a whole policy
//! (upstream: `encryption.go`).

use std::fmt;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use gotemplate::encodings::{base64_of, decode_base64};

use crate::render::{ResolutionCause, ResolutionError};

/// What an encrypted value begins with.
pub(crate) const PREFIX: &str = "$ocm_encrypted:";
const BLOCK: usize = 16;
const INVALID_KEY: &str = "the AES key is invalid";

/// The keys of encrypted values, of the Secret `policy-encryption-key`.
#[derive(Clone, Default)]
pub struct TemplateKeys {
    /// The key: 16, 24 or 32 bytes. Empty where the Secret has none.
    pub key: Vec<u8>,
    /// The key before that, which decryption tries next. Empty where there is none.
    pub previous: Vec<u8>,
    /// The initialization vector: 16 bytes, of the annotation `encryption-iv` of the policy.
    pub iv: Vec<u8>,
}

// Keys are in no message and no log.
impl fmt::Debug for TemplateKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TemplateKeys")
    }
}

impl TemplateKeys {
    /// Refuses keys and vectors that cannot be used (upstream: `validateEncryptionConfig`).
    pub(crate) fn check(&self) -> Result<(), ResolutionError> {
        let refuse = |cause, why: String| {
            let message = format!("error validating EncryptionConfig: {why}");
            Err(ResolutionError { message, cause })
        };
        if self.key.is_empty() {
            let why = "AESKey must be set to use this encryption mode".to_owned();
            return refuse(ResolutionCause::InvalidKey, why);
        }
        for key in [&self.key, &self.previous] {
            if !key.is_empty() && !matches!(key.len(), 16 | 24 | 32) {
                let why = format!("{INVALID_KEY}: crypto/aes: invalid key size {}", key.len());
                return refuse(ResolutionCause::InvalidKey, why);
            }
        }
        match self.iv.len() {
            BLOCK => Ok(()),
            0 => refuse(
                ResolutionCause::Other,
                "initialization vector must be set to use this encryption mode".to_owned(),
            ),
            _ => refuse(
                ResolutionCause::InvalidIv,
                "initialization vector must be 128 bits".to_owned(),
            ),
        }
    }

    fn iv(&self) -> Result<FixedLength<BLOCK>, String> {
        FixedLength::try_from(self.iv.as_slice()).map_err(|_| "initialization vector must be 128 bits".to_owned())
    }

    /// The text as `protect` gives it.
    pub(crate) fn protect(&self, text: &[u8]) -> Result<String, String> {
        if text.is_empty() {
            return Ok(String::new());
        }
        let padding = BLOCK - text.len() % BLOCK;
        let mut bytes = text.to_vec();
        bytes.extend(std::iter::repeat_n(padding as u8, padding));
        let key = EncryptingKey::cbc(aes(&self.key)?).map_err(|_| INVALID_KEY.to_owned())?;
        key.less_safe_encrypt(&mut bytes, EncryptionContext::Iv128(self.iv()?))
            .map_err(|_| INVALID_KEY.to_owned())?;
        Ok(format!("{PREFIX}{}", base64_of(&bytes)))
    }

    /// What was encrypted. `text` is what follows the prefix.
    pub(crate) fn decrypt(&self, text: &str) -> Result<Vec<u8>, String> {
        let bytes = decode_base64(text.as_bytes()).map_err(|at| {
            format!("{text}: the encrypted string is invalid base64: illegal base64 data at input byte {at}")
        })?;
        let mut refused = String::new();
        for key in [&self.key, &self.previous] {
            if key.is_empty() {
                continue;
            }
            match self.decrypt_with(key, bytes.clone()) {
                Ok(bytes) => return Ok(bytes),
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }

    fn decrypt_with(&self, key: &[u8], mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        let no_length = || "invalid PCKS7 padding: the padding length is invalid".to_owned();
        // Upstream's process ends here.
        if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK) {
            return Err(no_length());
        }
        let key = DecryptingKey::cbc(aes(key)?).map_err(|_| INVALID_KEY.to_owned())?;
        key.decrypt(&mut bytes, DecryptionContext::Iv128(self.iv()?))
            .map_err(|_| INVALID_KEY.to_owned())?;
        let last = bytes.last().copied().unwrap_or_default();
        let padding = usize::from(last);
        if padding == 0 || padding > bytes.len() {
            return Err(no_length());
        }
        let rest = bytes.split_off(bytes.len() - padding);
        if rest.iter().any(|it| *it != last) {
            return Err("invalid PCKS7 padding: not all the padding bytes match".to_owned());
        }
        Ok(bytes)
    }
}

fn aes(key: &[u8]) -> Result<UnboundCipherKey, String> {
    let algorithm = match key.len() {
        16 => &AES_128,
        24 => &AES_192,
        32 => &AES_256,
        length => return Err(format!("{INVALID_KEY}: crypto/aes: invalid key size {length}")),
    };
    UnboundCipherKey::new(algorithm, key).map_err(|_| INVALID_KEY.to_owned())
}
