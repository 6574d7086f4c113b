//! Base64, base32, checksums and hashes.

use std::fmt::Write;

use aws_lc_rs::digest;

use crate::functions::Functions;
use crate::value::Value;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("b64enc", "string", |_, a| {
        Ok(Value::from(crate::base64_of(bytes(&a[0]))))
    });
    functions.add("b64dec", "string", |_, a| {
        Ok(match decode_base64(bytes(&a[0])) {
            Ok(data) => Value::string_of_bytes(data),
            Err(at) => Value::from(format!("illegal base64 data at input byte {at}")),
        })
    });
    functions.add("b32enc", "string", |_, a| Ok(Value::from(encode_base32(bytes(&a[0])))));
    functions.add("b32dec", "string", |_, a| {
        Ok(match decode_base32(bytes(&a[0])) {
            Ok(data) => Value::string_of_bytes(data),
            Err(at) => Value::from(format!("illegal base32 data at input byte {at}")),
        })
    });
    functions.add("sha1sum", "string", |_, a| {
        Ok(hexadecimal(
            digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes(&a[0])).as_ref(),
        ))
    });
    functions.add("sha256sum", "string", |_, a| {
        Ok(hexadecimal(digest::digest(&digest::SHA256, bytes(&a[0])).as_ref()))
    });
    functions.add("sha512sum", "string", |_, a| {
        Ok(hexadecimal(digest::digest(&digest::SHA512, bytes(&a[0])).as_ref()))
    });
    functions.add("adler32sum", "string", |_, a| {
        let (low, high) = bytes(&a[0]).iter().fold((1u32, 0u32), |(low, high), byte| {
            let low = (low + u32::from(*byte)) % 65521;
            (low, (high + low) % 65521)
        });
        Ok(Value::from((high << 16 | low).to_string()))
    });
}

pub(super) fn bytes(value: &Value) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}

fn hexadecimal(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Value::from(text)
}

/// Go's decoder: line breaks are skipped; the error is the place where it stops.
pub(crate) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    let skip = |at: &mut usize| {
        while matches!(text.get(*at), Some(b'\n' | b'\r')) {
            *at += 1;
        }
    };
    loop {
        let mut quantum = [0u8; 4];
        let mut count = 0;
        let mut padded = false;
        while count < 4 {
            skip(&mut at);
            let Some(&byte) = text.get(at) else {
                return if count == 0 { Ok(out) } else { Err(at - count) };
            };
            at += 1;
            if let Some(value) = digit(byte) {
                quantum[count] = value;
                count += 1;
                continue;
            }
            if byte != b'=' || count < 2 {
                return Err(at - 1);
            }
            if count == 2 {
                skip(&mut at);
                match text.get(at) {
                    None => return Err(text.len()),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(at - 1),
                }
            }
            skip(&mut at);
            if at < text.len() {
                return Err(at);
            }
            padded = true;
            break;
        }
        let all = u32::from_be_bytes([0, 0, 0, 0])
            | u32::from(quantum[0]) << 18
            | u32::from(quantum[1]) << 12
            | u32::from(quantum[2]) << 6
            | u32::from(quantum[3]);
        out.extend_from_slice(&all.to_be_bytes()[1..count]);
        if padded {
            return Ok(out);
        }
    }
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn encode_base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut block = [0u8; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let all = u64::from_be_bytes(block);
        let digits = (chunk.len() * 8).div_ceil(5);
        for at in 0..8 {
            let digit = (all >> (35 - 5 * at)) & 31;
            out.push(if at < digits {
                char::from(BASE32[digit as usize])
            } else {
                '='
            });
        }
    }
    out
}

fn decode_base32(text: &[u8]) -> Result<Vec<u8>, usize> {
    let kept: Vec<u8> = text.iter().copied().filter(|it| !matches!(it, b'\n' | b'\r')).collect();
    let mut out = Vec::with_capacity(kept.len() / 8 * 5);
    for (number, chunk) in kept.chunks(8).enumerate() {
        let start = number * 8;
        let digits = chunk.iter().position(|it| *it == b'=').unwrap_or(chunk.len());
        let mut all = 0u64;
        for (at, byte) in chunk[..digits].iter().enumerate() {
            let Some(value) = BASE32.iter().position(|it| it == byte) else {
                return Err(start + at);
            };
            all |= (value as u64) << (35 - 5 * at);
        }
        let padding_fits = chunk.len() == 8
            && chunk[digits..].iter().all(|it| *it == b'=')
            && matches!(digits, 2 | 4 | 5 | 7 | 8)
            && (digits == 8 || kept.len() == start + 8);
        if !padding_fits {
            return Err(start + digits);
        }
        out.extend_from_slice(&all.to_be_bytes()[3..3 + digits * 5 / 8]);
    }
    Ok(out)
}
