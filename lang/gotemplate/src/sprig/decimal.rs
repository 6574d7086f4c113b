//! Decimal arithmetic for `addf` and its kin: `0.1 + 0.2` is `0.3` there.

#[derive(Clone, Copy)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
}

/// A number as digits and a power of ten.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    exponent: i32,
}

/// As many decimals as a division is carried to.
const DIVISION_DECIMALS: i32 = 16;

/// Combines numbers from left to right.
pub(super) fn fold(first: f64, others: &[f64], operation: Operation) -> Result<f64, String> {
    if !first.is_finite() || others.iter().any(|it| !it.is_finite()) {
        return Err("Cannot create a Decimal from a number that is not finite".to_owned());
    }
    if matches!(operation, Operation::Div) && others.contains(&0.0) {
        return Err("decimal division by 0".to_owned());
    }
    let mut sum = Decimal::of(first);
    for other in others {
        sum = sum.and_then(|sum| sum.with(Decimal::of(*other)?, operation));
    }
    match sum {
        Some(sum) => Ok(sum.value()),
        // More digits than fit: then the last ones cannot matter either.
        None => Ok(others.iter().fold(first, |a, b| match operation {
            Operation::Add => a + b,
            Operation::Sub => a - b,
            Operation::Mul => a * b,
            Operation::Div => a / b,
        })),
    }
}

impl Decimal {
    fn of(value: f64) -> Option<Decimal> {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let decimals = mantissa.split_once('.').map_or(0, |(_, it)| it.len() as i32);
        Some(Decimal {
            digits: mantissa.replace('.', "").parse().ok()?,
            exponent: exponent.parse::<i32>().ok()? - decimals,
        })
    }

    fn value(self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(f64::NAN)
    }

    fn scaled(self, exponent: i32) -> Option<i128> {
        let power = u32::try_from(self.exponent.checked_sub(exponent)?).ok()?;
        self.digits.checked_mul(10i128.checked_pow(power)?)
    }

    fn with(self, other: Decimal, operation: Operation) -> Option<Decimal> {
        let exponent = self.exponent.min(other.exponent);
        Some(match operation {
            Operation::Add => Decimal {
                digits: self.scaled(exponent)?.checked_add(other.scaled(exponent)?)?,
                exponent,
            },
            Operation::Sub => Decimal {
                digits: self.scaled(exponent)?.checked_sub(other.scaled(exponent)?)?,
                exponent,
            },
            Operation::Mul => Decimal {
                digits: self.digits.checked_mul(other.digits)?,
                exponent: self.exponent.checked_add(other.exponent)?,
            },
            Operation::Div => {
                // Numerator and denominator so that their quotient has the wanted decimals.
                let shift = self.exponent - other.exponent + DIVISION_DECIMALS;
                let power = 10i128.checked_pow(shift.unsigned_abs())?;
                let (above, below) = if shift >= 0 {
                    (self.digits.checked_mul(power)?, other.digits)
                } else {
                    (self.digits, other.digits.checked_mul(power)?)
                };
                let (quotient, rest) = (above / below, above % below);
                let up = rest.unsigned_abs().checked_mul(2)? >= below.unsigned_abs();
                let sign = above.signum() * below.signum();
                Decimal {
                    digits: if up { quotient + sign } else { quotient },
                    exponent: -DIVISION_DECIMALS,
                }
            }
        })
    }
}
