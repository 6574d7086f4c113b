//! A quantity to compute with.

use std::{
    cmp::Ordering,
    ops::{Add, Sub},
    str::FromStr,
};

use num_bigint::{BigInt, Sign};

use super::{Form, NUMERIC, Text};

/// The largest power of ten that is read: what is added up needs all digits between.
const TEN_MAX: i64 = 4096;
const FAR: &str = "quantities to compute with must be no more than 1e4096";

/// A quantity to compute with: the number, exactly, and what upstream keeps of it in 64 bits, because some of its
/// answers depend on that. Two are equal when their numbers are.
#[derive(Debug, Clone)]
pub struct Quantity {
    number: BigInt,
    /// The power of ten that the number counts.
    ten: i64,
    /// The number and its power of ten, where upstream keeps it in 64 bits.
    small: Option<(i64, i64)>,
}

impl FromStr for Quantity {
    type Err = String;

    /// Reads a quantity, without spaces around it. What is finer than a billionth is rounded away from zero, and what
    /// has a binary suffix is no more than `i64::MAX`.
    ///
    /// # Errors
    /// In upstream's words when the text is none, in ours when its power of ten is too large to compute with.
    fn from_str(text: &str) -> Result<Self, String> {
        let it = Text::scan(text)?;
        let small = it.small();
        if !it.any_digit && small.is_none() {
            return Err(NUMERIC.to_owned());
        }
        if it.ten > TEN_MAX {
            return Err(FAR.to_owned());
        }
        let (mut number, ten) = it.number();
        let most = BigInt::from(i64::MAX) * BigInt::from(10).pow(u32::try_from(-ten).unwrap_or_default());
        if it.form == Form::Binary && number.magnitude() > most.magnitude() {
            number = if number.sign() == Sign::Minus { -most } else { most };
        }
        let small = small.map(|(digits, ten)| {
            let digits = digits << it.two;
            (if it.negative { -digits } else { digits }, ten)
        });
        Ok(Self { number, ten, small })
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self {
            number: number.into(),
            ten: 0,
            small: Some((number, 0)),
        }
    }
}

impl Quantity {
    /// The whole number that it is; `None` if it is none, or if upstream does not keep it in 64 bits without a
    /// fraction. Upstream: `Quantity.AsInt64`.
    pub fn as_integer(&self) -> Option<i64> {
        let (digits, ten) = self.small?;
        raised(digits, ten)
    }

    /// About as much. Upstream: `Quantity.AsApproximateFloat64`.
    pub fn approximate(&self) -> f64 {
        let (base, ten) = match self.small {
            Some((digits, ten)) => (digits as f64, ten),
            // The text of a number is read exactly, and what is too large is infinite.
            None => (self.number.to_string().parse().unwrap_or(f64::INFINITY), self.ten),
        };
        if ten == 0 { base } else { base * power_of_ten(ten) }
    }

    /// Both numbers in the same power of ten.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let ten = self.ten.min(other.ten);
        let raise = |it: &Self| &it.number * BigInt::from(10).pow(u32::try_from(it.ten - ten).unwrap_or_default());
        (raise(self), raise(other), ten)
    }
}

/// Digits that count a power of ten which is not below one, as a whole number.
fn raised(digits: i64, ten: i64) -> Option<i64> {
    match u32::try_from(ten).ok()? {
        0 => Some(digits),
        _ if digits == 0 => Some(0),
        ten => digits.checked_mul(10i64.checked_pow(ten)?),
    }
}

/// As Go's `math.Pow10` has it: the product of two powers that it knows.
fn power_of_ten(ten: i64) -> f64 {
    let known = |ten: u64, sign: &str| format!("1e{sign}{ten}").parse().unwrap_or(f64::NAN);
    let size = ten.unsigned_abs();
    let (coarse, fine): (f64, f64) = match ten {
        309.. => return f64::INFINITY,
        0.. => (known(size / 32 * 32, ""), known(size % 32, "")),
        -323..0 => (known(size / 32 * 32, "-"), known(size % 32, "")),
        _ => return 0.0,
    };
    if ten < 0 { coarse / fine } else { coarse * fine }
}

/// The sum in 64 bits, as upstream keeps it.
fn small_sum(one: (i64, i64), other: (i64, i64)) -> Option<(i64, i64)> {
    if other.0 == 0 {
        return Some(one);
    }
    if one.0 == 0 {
        return Some(other);
    }
    let ten = one.1.min(other.1);
    let sum = raised(one.0, one.1 - ten)?.checked_add(raised(other.0, other.1 - ten)?)?;
    Some((sum, ten))
}

impl Add for &Quantity {
    type Output = Quantity;

    fn add(self, other: Self) -> Quantity {
        let (one, added, ten) = self.aligned(other);
        Quantity {
            number: one + added,
            ten,
            small: self
                .small
                .zip(other.small)
                .and_then(|(one, other)| small_sum(one, other)),
        }
    }
}

impl Sub for &Quantity {
    type Output = Quantity;

    fn sub(self, other: Self) -> Quantity {
        // The least number has no positive of 64 bits.
        let small = other.small.and_then(|(digits, ten)| Some((digits.checked_neg()?, ten)));
        self + &Quantity {
            number: -other.number.clone(),
            ten: other.ten,
            small,
        }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, other, _) = self.aligned(other);
        one.cmp(&other)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn numbers_are_exact_however_large() {
        for (one, other, order) in [
            ("1e40", "1", Ordering::Greater),
            ("1e400", "1e401", Ordering::Less),
            ("1000m", "1", Ordering::Equal),
            ("1Ki", "1024", Ordering::Equal),
            ("0.1n", "1n", Ordering::Equal),
            ("8Ei", "16Ei", Ordering::Equal),
            ("-1Gi", "-1073741824", Ordering::Equal),
            ("9223372036854775808", "9223372036854775807", Ordering::Greater),
            ("0e-999", "-0", Ordering::Equal),
        ] {
            assert_eq!(read(one).cmp(&read(other)), order, "{one} {other}");
        }
        assert!(&read("1e40") + &read("1n") > read("1e40"));
        assert_eq!(&read("1e40") - &read("1e40"), read("0"));
    }

    #[test]
    fn whole_numbers_are_those_of_64_bits() {
        for (text, integer) in [
            ("1Gi", Some(1 << 30)),
            ("1.5k", Some(1500)),
            ("1000m", None),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e19", None),
            ("1234567890123456789", None),
            ("-1", Some(-1)),
            ("1.5Gi", None),
        ] {
            assert_eq!(read(text).as_integer(), integer, "{text}");
        }
        assert_eq!((&read("2") - &read("2Gi")).as_integer(), Some(2 - (2 << 30)));
        assert_eq!((&read("0.5") + &read("0.5")).as_integer(), None);
    }

    #[test]
    fn quantities_become_the_numbers_that_go_makes_of_them() {
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
            assert_eq!(read(text).approximate(), value, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_computed_with_is_refused() {
        for text in ["", "a", "1x", "--1", " 1", "1 ", "1gi", "1e5000", "1.2.3", "0x1"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
        assert_eq!(read("1e-2000000000"), read("1n"));
    }
}
