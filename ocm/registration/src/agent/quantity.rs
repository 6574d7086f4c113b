//! Adding up Kubernetes quantities, and writing the sum as Go does.
//! Upstream: apimachinery `pkg/api/resource`: a sum keeps the format of its first addend and uses the largest suffix that
//! leaves no fraction.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The value is kept in billionths, the finest unit that Kubernetes knows.
const ONE: i128 = 1_000_000_000;

const BINARY: [(&str, i128); 7] = [
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("", 1),
];

const DECIMAL: [(&str, i128); 10] = [
    ("E", ONE * 1_000_000_000_000_000_000),
    ("P", ONE * 1_000_000_000_000_000),
    ("T", ONE * 1_000_000_000_000),
    ("G", ONE * 1_000_000_000),
    ("M", ONE * 1_000_000),
    ("k", ONE * 1_000),
    ("", ONE),
    ("m", ONE / 1_000),
    ("u", ONE / 1_000_000),
    ("n", 1),
];

/// The sum of these quantities; those that cannot be read count nothing.
pub(super) fn sum<'a>(quantities: impl IntoIterator<Item = &'a Quantity>) -> Quantity {
    let mut total = 0i128;
    let mut binary = None;
    for quantity in quantities {
        let Some((value, is_binary)) = parse(&quantity.0) else {
            continue;
        };
        total = total.saturating_add(value);
        // A zero has no say in the format.
        if value != 0 && binary.is_none() {
            binary = Some(is_binary);
        }
    }
    Quantity(format(total, binary.unwrap_or(false)))
}

fn parse(text: &str) -> Option<(i128, bool)> {
    let text = text.trim();
    let end = text
        .find(|it: char| !(it.is_ascii_digit() || matches!(it, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    if let Some((_, scale)) = BINARY.iter().find(|(name, _)| !name.is_empty() && *name == suffix) {
        return Some((scaled(number, scale * ONE)?, true));
    }
    if let Some((_, scale)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((scaled(number, *scale)?, false));
    }
    let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((scaled(number, 10i128.checked_pow(exponent)?.checked_mul(ONE)?)?, false))
}

fn scaled(number: &str, scale: i128) -> Option<i128> {
    let negative = number.starts_with('-');
    let number = number.trim_start_matches(['+', '-']);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = if whole.is_empty() {
        0
    } else {
        whole.parse::<i128>().ok()?.checked_mul(scale)?
    };
    let mut unit = scale;
    for digit in fraction.chars() {
        unit /= 10;
        value = value.checked_add(i128::from(digit.to_digit(10)?) * unit)?;
    }
    Some(if negative { -value } else { value })
}

fn format(value: i128, binary: bool) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    if binary && value % ONE == 0 {
        let whole = value / ONE;
        for (suffix, scale) in BINARY {
            if whole % scale == 0 {
                return format!("{}{suffix}", whole / scale);
            }
        }
    }
    for (suffix, scale) in DECIMAL {
        if value % scale == 0 {
            return format!("{}{suffix}", value / scale);
        }
    }
    // The last scale is 1, which divides everything.
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addends: &[&str], total: &str) {
        let addends: Vec<_> = addends.iter().map(|it| Quantity((*it).to_owned())).collect();
        assert_eq!(sum(&addends).0, total, "{addends:?}");
    }

    #[test]
    fn sums_are_written_as_go_writes_them() {
        check(&["4", "3920m"], "7920m");
        check(&["2", "2"], "4");
        check(&["16393204Ki", "16393204Ki"], "32786408Ki");
        check(&["8Gi", "8Gi"], "16Gi");
        check(&["0", "1Gi"], "1Gi");
        check(&["110", "110"], "220");
        check(&["1000"], "1k");
        check(&["1.5", "500m"], "2");
        check(&["1e3", "1k"], "2k");
        check(&[], "0");
        check(&["nonsense", "1"], "1");
        // The whole number just fits, with its fraction it does not.
        check(&["170141183460469231731687303715.9", "1"], "1");
    }
}
