//! Some of a fleet's slots, as a set of bits.

/// The set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    words: Vec<u64>,
    count: usize,
}

impl Slots {
    /// Puts a slot in or takes it out.
    pub fn set(&mut self, slot: u32, is_in: bool) {
        if self.has(slot) == is_in {
            return;
        }
        let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] ^= bit;
        if is_in {
            self.count += 1;
        } else {
            self.count -= 1;
        }
    }

    /// Puts in all that another has.
    pub fn extend(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.count = self.words.iter().map(|it| it.count_ones() as usize).sum();
    }

    /// Whether a slot is in.
    pub fn has(&self, slot: u32) -> bool {
        let word = self.words.get(slot as usize / 64);
        word.is_some_and(|it| it & (1 << (slot % 64)) != 0)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted() {
        let mut slots = Slots::default();
        for (slot, is_in) in [(3, true), (200, true), (3, true), (3, false), (500, false)] {
            slots.set(slot, is_in);
        }
        assert!(slots.has(200) && !slots.has(3) && !slots.has(501));
        assert_eq!(slots.count(), 1);
        let mut other = Slots::default();
        other.set(7, true);
        other.extend(&slots);
        assert!(other.has(7) && other.has(200));
        assert_eq!(other.count(), 2);
    }
}
