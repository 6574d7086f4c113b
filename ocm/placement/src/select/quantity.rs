//! A Kubernetes quantity as the number that Go makes of it (`AsApproximateFloat64`).

/// The number; nothing when the text is no quantity.
pub fn number(text: &str) -> Option<f64> {
    let end = text
        .find(|it: char| !(it.is_ascii_digit() || matches!(it, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let negative = number.starts_with('-');
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let mantissa: f64 = digits.parse().ok()?;
    let shift = i32::try_from(fraction.len()).ok()?;
    let value = match suffix {
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => {
            let power = 1 + ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
                .iter()
                .position(|it| *it == suffix)?;
            ten_to(-shift)? * mantissa * 1024f64.powi(i32::try_from(power).ok()?)
        }
        _ => mantissa * ten_to(exponent(suffix)?.checked_sub(shift)?)?,
    };
    Some(if negative { -value } else { value })
}

fn exponent(suffix: &str) -> Option<i32> {
    Some(match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    })
}

/// The power of ten that the compiler would write: `powi` rounds on the way there.
fn ten_to(exponent: i32) -> Option<f64> {
    format!("1e{exponent}").parse().ok().filter(|it: &f64| it.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_become_numbers() {
        for (text, value) in [
            ("4", 4.0),
            ("500m", 0.5),
            ("1.5", 1.5),
            ("3920m", 3.92),
            ("16Gi", 17_179_869_184.0),
            ("1.5Ki", 1536.0),
            ("2k", 2000.0),
            ("1e3", 1000.0),
            ("-1", -1.0),
            ("1E", 1e18),
        ] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for text in ["", "a", "1x", "--1", "1.2.3", "."] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
