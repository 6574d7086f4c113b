//! What is drawn by lot, from the source of randomness that the engine was given.

use crate::exec::Call;
use crate::functions::Functions;
use crate::gofmt::display;
use crate::limits::check_text;
use crate::sprig::strings::int;
use crate::value::Value;

pub(crate) fn add(functions: &mut Functions) {
    const DIGITS: &str = "0123456789";
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const BOTH: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const PRINTABLE: &str =
        " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
    for (name, alphabet) in [
        ("randAlphaNum", BOTH),
        ("randAlpha", LETTERS),
        ("randNumeric", DIGITS),
        ("randAscii", PRINTABLE),
    ] {
        functions.add(name, "int", move |call, a| {
            let count = usize::try_from(int(&a[0])).unwrap_or(0);
            check_text(count)?;
            let alphabet = alphabet.as_bytes();
            let drawn = (0..count).map(|_| char::from(alphabet[below(call, alphabet.len() as u64) as usize]));
            Ok(Value::from(drawn.collect::<String>()))
        });
    }
    functions.add("randInt", "int int", |call, a| {
        let (low, high) = (int(&a[0]), int(&a[1]));
        match high.checked_sub(low).and_then(|it| u64::try_from(it).ok()) {
            Some(span) if span > 0 => Ok(Value::int(low + below(call, span) as i64)),
            _ => Err("invalid argument to Intn".to_owned()),
        }
    });
    functions.add("randBytes", "int", |call, a| {
        let count = usize::try_from(int(&a[0])).map_err(|_| "runtime error: makeslice: len out of range".to_owned())?;
        check_text(count)?;
        let mut bytes = vec![0; count];
        call.fill_random(&mut bytes);
        Ok(Value::from(crate::base64_of(&bytes)))
    });
    functions.add("shuffle", "string", |call, a| {
        let mut chars: Vec<char> = display(&a[0]).chars().collect();
        for at in (1..chars.len()).rev() {
            chars.swap(at, below(call, at as u64 + 1) as usize);
        }
        Ok(Value::from(chars.into_iter().collect::<String>()))
    });
    functions.add("uuidv4", "", |call, _| {
        let mut bytes = [0u8; 16];
        call.fill_random(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let text: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
        let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        Ok(Value::from(parts.join("-")))
    });
}

/// A number below a bound, each as likely as any other.
fn below(call: &Call<'_>, bound: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % bound;
    // A source that never gives a fair number is no source; then the fairness goes rather than the process.
    for _ in 0..128 {
        let mut bytes = [0; 8];
        call.fill_random(&mut bytes);
        let drawn = u64::from_le_bytes(bytes);
        if drawn < fair {
            return drawn % bound;
        }
    }
    0
}
