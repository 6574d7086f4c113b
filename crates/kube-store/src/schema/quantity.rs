//! Resource quantities (`1500m`, `1Gi`) in the canonical form that Kubernetes answers.
//! Upstream: apimachinery `resource.Quantity`; the number is kept exactly, never as a float.

const WRONG: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// A quantity as written: mantissa, power of ten, power of 1024 and the family of its suffix.
struct Parsed {
    mantissa: i128,
    ten: i32,
    kibi: u32,
    form: Form,
}

fn parse(text: &str) -> Result<Parsed, String> {
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
        None => return Err(WRONG.to_owned()),
    };
    let end = body
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(body.len());
    let (number, suffix) = body.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(WRONG.to_owned());
    }
    let (ten, kibi, form) = match suffix {
        "n" => (-9, 0, Form::Decimal),
        "u" => (-6, 0, Form::Decimal),
        "m" => (-3, 0, Form::Decimal),
        "" => (0, 0, Form::Decimal),
        "k" => (3, 0, Form::Decimal),
        "M" => (6, 0, Form::Decimal),
        "G" => (9, 0, Form::Decimal),
        "T" => (12, 0, Form::Decimal),
        "P" => (15, 0, Form::Decimal),
        "E" => (18, 0, Form::Decimal),
        "Ki" => (0, 1, Form::Binary),
        "Mi" => (0, 2, Form::Binary),
        "Gi" => (0, 3, Form::Binary),
        "Ti" => (0, 4, Form::Binary),
        "Pi" => (0, 5, Form::Binary),
        "Ei" => (0, 6, Form::Binary),
        other => match other.strip_prefix(['e', 'E']).and_then(|it| it.parse::<i32>().ok()) {
            Some(exponent) if exponent.abs() < 1000 => (exponent, 0, Form::Exponent),
            _ if other.bytes().all(|it| b"eEinumkKMGTP+-0123456789".contains(&it)) => {
                return Err("unable to parse quantity's suffix".to_owned());
            }
            _ => return Err(WRONG.to_owned()),
        },
    };
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let mantissa: i128 = if digits.is_empty() {
        0
    } else {
        digits.parse().map_err(|_| WRONG.to_owned())?
    };
    let mantissa = if negative { -mantissa } else { mantissa };
    Ok(Parsed {
        mantissa,
        ten: ten - fraction.len() as i32,
        kibi,
        form,
    })
}

/// Division that rounds away from zero, as quantities that are too precise do.
fn divide_up(value: i128, by: i128) -> i128 {
    let rest = value % by;
    value / by + if rest == 0 { 0 } else { value.signum() }
}

/// The canonical form of a quantity: `1000m` is `1`, `1024Mi` is `1Gi`.
pub fn canonical(text: &str) -> Result<String, String> {
    let it = parse(text.trim())?;
    if it.mantissa == 0 {
        return Ok("0".to_owned());
    }
    // Beyond these sizes the canonical form would need more than 128 bits; such numbers are kept as they came.
    let as_written = || text.trim().to_owned();
    if it.form == Form::Binary {
        let Some(scaled) = it.mantissa.checked_mul(1i128 << (10 * it.kibi)) else {
            return Ok(as_written());
        };
        if it.ten < -30 {
            return Ok(as_written());
        }
        let divisor = 10i128.pow(it.ten.unsigned_abs());
        if (scaled / divisor).abs() >= 1024 {
            let mut value = divide_up(scaled, divisor);
            let mut suffix = 0;
            while suffix < 6 && value % 1024 == 0 {
                value /= 1024;
                suffix += 1;
            }
            return Ok(format!("{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][suffix]));
        }
        return Ok(decimal(scaled, it.ten, false).unwrap_or_else(as_written));
    }
    Ok(decimal(it.mantissa, it.ten, it.form == Form::Exponent).unwrap_or_else(as_written))
}

fn decimal(mut mantissa: i128, mut ten: i32, exponent_form: bool) -> Option<String> {
    if ten < -9 {
        // Nothing finer than nano is kept.
        let by = u32::try_from(-9 - ten).ok()?;
        mantissa = if by > 38 {
            mantissa.signum()
        } else {
            divide_up(mantissa, 10i128.pow(by))
        };
        ten = -9;
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        ten += 1;
    }
    while ten.rem_euclid(3) != 0 || (!exponent_form && ten > 18) {
        mantissa = mantissa.checked_mul(10)?;
        ten -= 1;
    }
    if exponent_form {
        return Some(if ten == 0 {
            mantissa.to_string()
        } else {
            format!("{mantissa}e{ten}")
        });
    }
    let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].get(usize::try_from(ten / 3 + 3).ok()?)?;
    Some(format!("{mantissa}{suffix}"))
}

/// The value of a quantity in thousandths, rounded up; `None` when the text is no quantity or is too large.
pub fn milli(text: &str) -> Option<i128> {
    let it = parse(text.trim()).ok()?;
    let scaled = it.mantissa.checked_mul(1i128 << (10 * it.kibi))?;
    let ten = it.ten + 3;
    if ten >= 0 {
        scaled.checked_mul(10i128.checked_pow(ten.unsigned_abs())?)
    } else {
        Some(divide_up(scaled, 10i128.checked_pow(ten.unsigned_abs())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_in_canonical_form() {
        let table = [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1", "1"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("512Ki", "512Ki"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("100M", "100M"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("0", "0"),
            ("0Gi", "0"),
            ("+2", "2"),
            ("-1500m", "-1500m"),
            ("0.0000000001", "1n"),
            ("1.0", "1"),
            ("100k", "100k"),
            ("1000k", "1M"),
        ];
        for (text, want) in table {
            assert_eq!(canonical(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "abc", "1.2.3", "1X", ".", "1 Gi"] {
            assert!(canonical(text).is_err(), "{text}");
        }
        assert_eq!(canonical("1Mx"), Err(WRONG.to_owned()));
        assert_eq!(canonical("1GiGi"), Err("unable to parse quantity's suffix".to_owned()));
    }
}
