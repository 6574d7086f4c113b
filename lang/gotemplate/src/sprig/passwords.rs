//! `derivePassword`: the Master Password algorithm, which makes the same password of the same words everywhere.

use aws_lc_rs::hmac;

use super::encoding::bytes;
use crate::functions::Functions;
use crate::gofmt::display;
use crate::sprig::strings::int;
use crate::value::Value;

const SEED: &[u8] = b"com.lyndir.masterpassword";

pub(crate) fn add(functions: &mut Functions) {
    functions.add("derivePassword", "uint32 string string string string", |_, a| {
        let kind = display(&a[1]);
        let Some(patterns) = patterns(&kind) else {
            return Ok(Value::from(format!("cannot find password template {kind}")));
        };
        // The parameter is declared as 32 bits wide.
        let counter = int(&a[0]) as u32;
        let derived = derive(counter, patterns, bytes(&a[2]), bytes(&a[3]), bytes(&a[4]));
        Ok(Value::from(derived))
    });
}

/// What a password of this kind looks like; the letters are those of [`alphabet`].
fn patterns(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

fn alphabet(letter: u8) -> &'static [u8] {
    match letter {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

fn derive(counter: u32, patterns: &[&str], password: &[u8], user: &[u8], site: &[u8]) -> String {
    // A text is shorter than `TEXT_BYTES_MAX`, so its length has 32 bits.
    let length = |it: &[u8]| (it.len() as u32).to_be_bytes();
    let salt = [SEED, &length(user), user].concat();
    let params = scrypt::Params::new(15, 8, 2).expect("these are parameters that scrypt allows");
    let mut key = [0; 64];
    scrypt::scrypt(password, &salt, &params, &mut key).expect("64 bytes are a length that scrypt makes");
    let message = [SEED, &length(site), site, &counter.to_be_bytes()].concat();
    let drawn = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &message);
    let drawn = drawn.as_ref();
    let pattern = patterns[usize::from(drawn[0]) % patterns.len()];
    let letters = pattern.bytes().zip(&drawn[1..]).map(|(letter, drawn)| {
        let alphabet = alphabet(letter);
        char::from(alphabet[usize::from(*drawn) % alphabet.len()])
    });
    letters.collect()
}
