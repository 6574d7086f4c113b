//! Quantities of a cluster's capacity, shortened for a table.

/// A memory quantity such as `8148060Ki`, in the largest binary unit that loses less than a tenth; anything that is
/// no plain binary quantity is shown as it is.
pub fn memory(quantity: &str) -> String {
    let Some((digits, unit)) = quantity
        .find(|c: char| !c.is_ascii_digit())
        .map(|at| quantity.split_at(at))
    else {
        return quantity.parse::<u64>().map_or_else(|_| quantity.to_owned(), from_bytes);
    };
    let shift = match unit {
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        _ => return quantity.to_owned(),
    };
    match digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
    {
        Some(bytes) => from_bytes(bytes),
        None => quantity.to_owned(),
    }
}

fn from_bytes(bytes: u64) -> String {
    for (unit, shift) in [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        if bytes >= 10 << shift || (bytes >= 1 << shift && bytes.is_multiple_of(1 << shift)) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shown_in_a_unit_that_can_be_read() {
        assert_eq!(memory("16Gi"), "16Gi");
        assert_eq!(memory("24496936Ki"), "23Gi");
        assert_eq!(memory("8148060Ki"), "7957Mi");
        assert_eq!(memory("1073741824"), "1Gi");
        assert_eq!(memory("1e9"), "1e9");
        assert_eq!(memory("99999999999999Ti"), "99999999999999Ti");
    }
}
