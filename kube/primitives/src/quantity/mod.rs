//! Resource quantities (`1500m`, `1Gi`) in the canonical form that Kubernetes answers.
//! Upstream: apimachinery `resource.Quantity`; the number is kept exactly, never as a float.

mod exact;

use num_bigint::{BigInt, Sign};

pub use exact::Quantity;

const WRONG: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";
const LONG: &str = "quantities must be no more than 1024 characters";

/// The longest text that is read. Upstream has no such limit, but what an exact number costs grows with the square of
/// its digits, and three megabytes of them would keep a core for long.
const LENGTH_MAX: usize = 1024;

/// The finest power of ten that is kept.
const NANO: i64 = -9;
/// The finest power of ten in lists of resources.
const MILLI: i64 = -3;

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// The parts of a quantity's text.
struct Text<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    /// The digits after the point.
    fraction: &'a str,
    /// Whether there is any digit before the suffix. Kubernetes lets it be missing in some places (`Ki` is zero).
    any_digit: bool,
    /// The power of ten of the suffix.
    ten: i64,
    /// The power of two of the suffix.
    two: u32,
    form: Form,
}

impl<'a> Text<'a> {
    fn scan(text: &'a str) -> Result<Self, String> {
        if text.len() > LENGTH_MAX {
            return Err(LONG.to_owned());
        }
        let (negative, body) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(WRONG.to_owned()),
        };
        let digits = |it: &'a str| {
            let end = it.find(|it: char| !it.is_ascii_digit()).unwrap_or(it.len());
            it.split_at(end)
        };
        let (whole, rest) = digits(body);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let letters = suffix.trim_start_matches(|it| "eEinumkKMGTP".contains(it));
        let signed = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !signed.bytes().all(|it| it.is_ascii_digit()) {
            return Err(WRONG.to_owned());
        }
        let (ten, two, form) = match suffix {
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
            "Ki" => (0, 10, Form::Binary),
            "Mi" => (0, 20, Form::Binary),
            "Gi" => (0, 30, Form::Binary),
            "Ti" => (0, 40, Form::Binary),
            "Pi" => (0, 50, Form::Binary),
            "Ei" => (0, 60, Form::Binary),
            // Upstream lets exponents beyond 32 bits wrap around, which makes another number of them.
            other => match other.strip_prefix(['e', 'E']).and_then(|it| it.parse::<i32>().ok()) {
                Some(exponent) => (exponent.into(), 0, Form::Exponent),
                None => return Err(SUFFIX.to_owned()),
            },
        };
        Ok(Self {
            negative,
            whole: whole.trim_start_matches('0'),
            fraction,
            any_digit: !(whole.is_empty() && fraction.is_empty()),
            ten,
            two,
            form,
        })
    }

    /// What upstream keeps in 64 bits, as digits and power of ten: short texts without much of a fraction.
    fn small(&self) -> Option<(i64, i64)> {
        let whole = self.whole.len().max(1);
        let precision = match self.form {
            Form::Decimal | Form::Exponent => 18 - (whole + self.fraction.len()) as i64,
            Form::Binary if self.fraction.is_empty() => 14 - whole as i64 - i64::from(self.two) * 3 / 10,
            Form::Binary => return None,
        };
        let ten = self.ten - self.fraction.len() as i64;
        if precision < 0 || ten < NANO {
            return None;
        }
        let digits: i64 = format!("0{}{}", self.whole, self.fraction).parse().ok()?;
        digits.checked_mul(1i64 << self.two)?;
        Some((digits, ten))
    }

    /// Whether upstream answers the text as it came: in 64 bits, without digits to spare.
    fn is_kept(&self) -> bool {
        let Some((digits, ten)) = self.small() else {
            return false;
        };
        match self.form {
            Form::Binary => digits & 7 != 0,
            Form::Decimal | Form::Exponent => ten % 3 == 0 && digits % 1000 != 0 && !self.whole.is_empty(),
        }
    }

    /// The exact number: so many times that power of ten, rounded away from zero to [`NANO`].
    fn number(&self) -> (BigInt, i64) {
        let digits = format!("{}{}", self.whole, self.fraction);
        let mut ten = self.ten - self.fraction.len() as i64;
        let mut number = BigInt::parse_bytes(digits.as_bytes(), 10).unwrap_or_default() << self.two;
        if ten < NANO {
            let by = u32::try_from(NANO - ten).unwrap_or(u32::MAX);
            // The power may have a thousand million digits, which nothing and what is less than one do not need.
            if u64::from(by) > number.bits() {
                number = BigInt::from(u8::from(number.sign() != Sign::NoSign));
            } else {
                number = divide_up(&number, &BigInt::from(10).pow(by));
            }
            ten = NANO;
        }
        (if self.negative { -number } else { number }, ten)
    }
}

/// Division of what is not negative, that rounds up.
fn divide_up(value: &BigInt, by: &BigInt) -> BigInt {
    (value + by - 1) / by
}

/// The canonical form of a quantity: `1000m` is `1`, `1024Mi` is `1Gi`, `1.1Gi`,
/// which is no whole number, `1181116006400m`.
///
/// One thing is not as upstream has it: decimal numbers whose power of ten has no suffix, such as `1000E`, lose that
/// power there (`1`). They are answered as they came.
///
/// # Errors
///
/// In upstream's words when the text is no quantity, and in ours when it is longer than 1024 characters.
pub fn canonical(text: &str) -> Result<String, String> {
    let text = text.trim();
    let it = Text::scan(text)?;
    if !it.any_digit && it.small().is_none() {
        return Err(NUMERIC.to_owned());
    }
    if it.is_kept() {
        return Ok(text.to_owned());
    }
    let (number, ten) = it.number();
    Ok(written(number, ten, it.form).unwrap_or_else(|| text.to_owned()))
}

/// What a canonical quantity becomes in a list of resources (`limits`, `requests`, `capacity`, `hard`), where
/// Kubernetes keeps nothing finer than thousandths and rounds up to them: `100u` is `1m`. `None` if it has nothing
/// finer, or is no quantity. Upstream: core/v1 `SetDefaults_ResourceList`.
pub fn in_thousandths(text: &str) -> Option<String> {
    let it = Text::scan(text).ok()?;
    let (number, ten) = it.number();
    let by = BigInt::from(10).pow(u32::try_from(MILLI - ten).ok().filter(|it| *it > 0)?);
    let up = divide_up(&number.magnitude().clone().into(), &by);
    if &up * &by == number.magnitude().clone().into() {
        return None;
    }
    written(if it.negative { -up } else { up }, MILLI, it.form)
}

/// A number, so many times that power of ten, in its canonical form; `None` where its power has no suffix.
fn written(mut number: BigInt, mut ten: i64, form: Form) -> Option<String> {
    if number.sign() == Sign::NoSign {
        return Some("0".to_owned());
    }
    while ten < 0 && (&number % 10u8).sign() == Sign::NoSign {
        number /= 10;
        ten += 1;
    }
    if form != Form::Binary {
        return decimal(number, ten, form == Form::Exponent);
    }
    let most = BigInt::from(i64::MAX);
    // Below zero are only the powers of fractions, which are not many; above it a binary quantity has none.
    let limit = &most * BigInt::from(10).pow(ten.unsigned_abs() as u32);
    if number.magnitude() > limit.magnitude() {
        number = if number.sign() == Sign::Minus { -most } else { most };
        ten = 0;
    }
    if ten < 0 || *number.magnitude() < 1024u32.into() {
        return decimal(number, ten, false);
    }
    let mut suffix = 0;
    while suffix < 6 && (&number % 1024u32).sign() == Sign::NoSign {
        number /= 1024;
        suffix += 1;
    }
    Some(format!("{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][suffix]))
}

/// The number with as few digits as a power of a thousand allows; `None` where that power has no suffix.
fn decimal(mut number: BigInt, mut ten: i64, exponent_form: bool) -> Option<String> {
    while (&number % 10u8).sign() == Sign::NoSign {
        number /= 10;
        ten += 1;
    }
    while ten % 3 != 0 {
        number *= 10;
        ten -= 1;
    }
    if exponent_form {
        return Some(if ten == 0 {
            number.to_string()
        } else {
            format!("{number}e{ten}")
        });
    }
    let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].get(usize::try_from(ten / 3 + 3).ok()?)?;
    Some(format!("{number}{suffix}"))
}

/// The value of a quantity in thousandths, rounded away from zero; `None` when the text is no quantity
/// or needs more than 128 bits.
pub fn milli(text: &str) -> Option<i128> {
    let it = Text::scan(text.trim()).ok()?;
    let (number, ten) = it.number();
    let ten = ten + 3;
    if number.sign() == Sign::NoSign {
        return Some(0);
    }
    if ten < 0 {
        let by = BigInt::from(10).pow(ten.unsigned_abs() as u32);
        let up = divide_up(&number.magnitude().clone().into(), &by);
        return i128::try_from(if it.negative { -up } else { up }).ok();
    }
    let by = 10i128.checked_pow(u32::try_from(ten).ok()?)?;
    i128::try_from(number).ok()?.checked_mul(by)
}

/// The sum of two canonical quantities, in the form of the first unless that is nothing. `None` if one is no quantity,
/// or they are so far apart that the smaller does not count.
pub fn sum(one: &str, other: &str) -> Option<String> {
    /// More digits than this nobody writes; a sum of them would take as many.
    const APART_MAX: i64 = 64;
    let (one, other) = (Text::scan(one).ok()?, Text::scan(other).ok()?);
    let ((first, high), (second, low)) = (one.number(), other.number());
    if first.sign() == Sign::NoSign || second.sign() == Sign::NoSign {
        let (number, ten, form) = if first.sign() == Sign::NoSign {
            (second, low, other.form)
        } else {
            (first, high, one.form)
        };
        return written(number, ten, form);
    }
    let ten = high.min(low);
    if high - ten > APART_MAX || low - ten > APART_MAX {
        return None;
    }
    let raised = |number: BigInt, from: i64| number * BigInt::from(10).pow((from - ten) as u32);
    written(raised(first, high) + raised(second, low), ten, one.form)
}

/// What these quantities make together, canonical, in the form of the first that is not nothing.
/// Those that cannot be read count nothing.
pub fn total<'a>(quantities: impl IntoIterator<Item = &'a str>) -> String {
    let canonical = quantities.into_iter().filter_map(|it| canonical(it).ok());
    canonical.fold("0".to_owned(), |total, it| sum(&total, &it).unwrap_or(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_written_as_go_writes_them() {
        let table: [(&[&str], &str); 12] = [
            (&["4", "3920m"], "7920m"),
            (&["2", "2"], "4"),
            (&["16393204Ki", "16393204Ki"], "32786408Ki"),
            (&["8Gi", "8Gi"], "16Gi"),
            (&["0", "1Gi"], "1Gi"),
            (&["110", "110"], "220"),
            (&["1000"], "1k"),
            (&["1.5", "500m"], "2"),
            (&["1e3", "1k"], "2e3"),
            (&[], "0"),
            (&["nonsense", "1"], "1"),
            (
                &["170141183460469231731687303715.9", "1"],
                "170141183460469231731687303716900m",
            ),
        ];
        for (quantities, want) in table {
            assert_eq!(total(quantities.iter().copied()), want, "{quantities:?}");
        }
    }

    #[test]
    fn sums_keep_the_form_of_the_first() {
        let table = [
            ("1", "500m", Some("1500m")),
            ("1Gi", "512Mi", Some("1536Mi")),
            ("1G", "24", Some("1000000024")),
            ("0", "1Gi", Some("1Gi")),
            ("1", "0", Some("1")),
            ("1k", "1Ki", Some("2024")),
            ("1", "-1", Some("0")),
            ("1e2000000000", "1", None),
            ("x", "1", None),
        ];
        for (one, other, want) in table {
            assert_eq!(sum(one, other).as_deref(), want, "{one} + {other}");
        }
    }

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
            ("+2", "+2"),
            ("0100", "0100"),
            ("1.024k", "1.024k"),
            ("1000E", "1000E"),
            ("-1500m", "-1500m"),
            ("0.0000000001", "1n"),
            ("1.0", "1"),
            ("100k", "100k"),
            ("1000k", "1M"),
            ("8.1110Mi", "8504999936m"),
            ("1.1Gi", "1181116006400m"),
            ("-0.1Ki", "-102400m"),
            ("-1.5Gi", "-1536Mi"),
            ("12Ei", "9223372036854775807"),
            ("-8Ei", "-9223372036854775807"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1E5", "100e3"),
            ("1e-10", "1e-9"),
            ("1e-2000000000", "1e-9"),
            ("1e2000000001", "1e2000000001"),
            ("Ki", "0"),
            (".", "0"),
        ];
        for (text, want) in table {
            assert_eq!(canonical(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_canonical_form_stays_as_it_is() {
        let suffixes = ["", "n", "m", "k", "E", "Ki", "Mi", "Ei", "e3", "e-10"];
        for number in [
            "8.1110",
            "1.1",
            ".1055",
            "-0.001",
            "1023",
            "4096",
            "999999999999999999999.5",
        ] {
            for suffix in suffixes {
                let once = canonical(&format!("{number}{suffix}")).unwrap();
                assert_eq!(canonical(&once).as_ref(), Ok(&once), "{number}{suffix}");
            }
        }
    }

    #[test]
    fn lists_of_resources_have_nothing_finer_than_thousandths() {
        let table = [
            ("100u", Some("1m")),
            ("-100u", Some("-1m")),
            ("1001n", Some("1m")),
            ("1000001u", Some("1001m")),
            ("102400u", Some("103m")),
            ("1m", None),
            ("1000u", None),
            ("0", None),
            ("1.5", None),
            ("1181116006400m", None),
            ("1e-9", Some("1e-3")),
            ("12Gi", None),
        ];
        for (text, want) in table {
            assert_eq!(in_thousandths(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn thousandths_are_exact_or_rounded_up() {
        let table = [
            ("1", Some(1000)),
            ("1.0001", Some(1001)),
            ("-1.0001", Some(-1001)),
            ("1Ki", Some(1_024_000)),
            ("1e99", None),
            ("0e99", Some(0)),
            ("x", None),
        ];
        for (text, want) in table {
            assert_eq!(milli(text), want, "{text}");
        }
    }

    #[test]
    fn nothing_costs_nothing_whatever_its_power() {
        for (text, want) in [
            ("0e-999029022", Some("0")),
            ("0e999029022", Some("0")),
            ("-0.0E-2147483648", Some("0")),
            ("1e-999029022", Some("1e-9")),
            ("E-999029022", None),
        ] {
            assert_eq!(canonical(text).ok().as_deref(), want, "{text}");
            assert_eq!(
                in_thousandths(want.unwrap_or_default()).is_some(),
                want == Some("1e-9"),
                "{text}"
            );
            assert_eq!(milli(text), want.map(|it| i128::from(it != "0")).or(Some(0)), "{text}");
        }
        assert_eq!(sum("0e-999029022", "1").as_deref(), Some("1"));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "abc", "1.2.3", "1X", "1 Gi", "1é", ".e-10", "1e+", "1e4294967297"] {
            assert!(canonical(text).is_err(), "{text}");
        }
        assert_eq!(canonical(&"7".repeat(LENGTH_MAX)).map(|it| it.len()), Ok(LENGTH_MAX));
        assert_eq!(canonical(&"7".repeat(LENGTH_MAX + 1)), Err(LONG.to_owned()));
        assert_eq!(canonical("1Mx"), Err(WRONG.to_owned()));
        assert_eq!(canonical("1GiGi"), Err("unable to parse quantity's suffix".to_owned()));
    }
}
