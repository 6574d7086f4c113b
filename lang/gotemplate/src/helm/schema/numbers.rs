//! Numbers compared as the decimals that were written, not as what a float makes of them.

use std::cmp::Ordering;

use serde_json::Number;

/// `digits` times ten to the power of `exponent`.
struct Decimal {
    digits: i128,
    exponent: i32,
}

impl Decimal {
    fn of(number: &Number) -> Option<Decimal> {
        let text = number.to_string();
        let (text, exponent) = match text.split_once(['e', 'E']) {
            Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
            None => (text.as_str(), 0),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Decimal {
            digits,
            exponent: exponent - i32::try_from(fraction.len()).ok()?,
        })
    }

    fn scaled(&self, exponent: i32) -> Option<i128> {
        let by = u32::try_from(self.exponent - exponent).ok()?;
        10i128.checked_pow(by)?.checked_mul(self.digits)
    }
}

/// Both as whole numbers of the same unit, where that fits.
fn aligned(a: &Number, b: &Number) -> Option<(i128, i128)> {
    let (a, b) = (Decimal::of(a)?, Decimal::of(b)?);
    let exponent = a.exponent.min(b.exponent);
    Some((a.scaled(exponent)?, b.scaled(exponent)?))
}

pub(super) fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    match aligned(a, b) {
        Some((a, b)) => a.cmp(&b),
        None => float(a).total_cmp(&float(b)),
    }
}

pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    match aligned(number, of) {
        Some((_, 0)) => false,
        Some((number, of)) => number % of == 0,
        None => float(number) % float(of) == 0.0,
    }
}

pub(super) fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || float(number).fract() == 0.0
}
