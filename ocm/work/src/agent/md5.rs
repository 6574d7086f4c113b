//! MD5, for one thing only: the hash that upstream writes on objects applied with ignored fields. Nothing here is a
//! secret, and our TLS provider rightly has no MD5 to offer.

const SHIFTS: [u32; 16] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];

/// The digest in lower-case hex.
pub fn hex(data: &[u8]) -> String {
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((data.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in padded.chunks_exact(64) {
        mix(&mut state, block);
    }
    state
        .iter()
        .flat_map(|it| it.to_le_bytes())
        .map(|it| format!("{it:02x}"))
        .collect()
}

fn mix(state: &mut [u32; 4], block: &[u8]) {
    let mut words = [0u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for round in 0..64usize {
        let (mixed, word) = match round / 16 {
            0 => ((b & c) | (!b & d), round),
            1 => ((d & b) | (!d & c), (5 * round + 1) % 16),
            2 => (b ^ c ^ d, (3 * round + 5) % 16),
            _ => (c ^ (b | !d), (7 * round) % 16),
        };
        let sine = (((round + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(mixed).wrapping_add(sine).wrapping_add(words[word]);
        let rotated = sum.rotate_left(SHIFTS[round / 16 * 4 + round % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d]) {
        *old = old.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_of_rfc_1321_come_out() {
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let long = "1234567890".repeat(8);
        assert_eq!(hex(long.as_bytes()), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
