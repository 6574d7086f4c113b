//! `$(NAME)` in commands, arguments and values of variables, as far as a process has room for what comes of it.

/// What Linux gives to the words and variables of one process, whatever its limits: three quarters of `_STK_LIM`. It
/// refuses longer ones itself, but values that name each other double with every line, and forty lines fill any memory.
const BYTES_MAX: usize = 6 * 1024 * 1024;

/// The words and variables of a container are more than a process can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the container's variables and words are longer than {BYTES_MAX} bytes, the most that a process can be given")]
pub struct TooLong;

/// How many bytes the words and variables of a container may still have.
#[derive(Debug)]
pub struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(BYTES_MAX)
    }
}

impl Room {
    /// Takes the room of a text.
    ///
    /// # Errors
    /// There is not so much of it.
    pub fn take(&mut self, text: &str) -> Result<(), TooLong> {
        self.0 = self.0.checked_sub(text.len()).ok_or(TooLong)?;
        Ok(())
    }
}

/// Replaces `$(NAME)` by what `look_up` knows; an unknown name stays as it is, and `$$` stands for one `$`.
///
/// # Errors
/// There is no room for the result.
pub fn expand<'a>(text: &str, room: &mut Room, look_up: impl Fn(&str) -> Option<&'a str>) -> Result<String, TooLong> {
    let mut expanded = String::with_capacity(text.len());
    let mut push = |piece: &str| -> Result<(), TooLong> {
        room.take(piece)?;
        expanded.push_str(piece);
        Ok(())
    };
    let mut rest = text;
    // Once a name does not end, no later one does: the text is not searched to its end for each of them.
    let mut names_end = true;
    while let Some(at) = rest.find('$') {
        push(&rest[..at])?;
        let after = &rest[at + 1..];
        rest = match after.chars().next() {
            Some('$') => {
                push("$")?;
                &after[1..]
            }
            Some('(') => match names_end.then(|| after.find(')')).flatten() {
                Some(end) => {
                    push(look_up(&after[1..end]).unwrap_or(&rest[at..at + 2 + end]))?;
                    &after[end + 1..]
                }
                None => {
                    names_end = false;
                    push("$(")?;
                    &after[1..]
                }
            },
            _ => {
                push("$")?;
                after
            }
        };
    }
    push(rest)?;
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_replaced_and_nothing_else() {
        let table = [
            ("--name=$(A)", "--name=1"),
            ("$(A)$(B)-$(A)", "12-1"),
            ("$(UNKNOWN) $(A", "$(UNKNOWN) $(A"),
            ("$(A) $( $$ $(", "1 $( $ $("),
            ("$$(A) $$$(A)", "$(A) $1"),
            ("$A ${A} 5$", "$A ${A} 5$"),
            ("", ""),
        ];
        for (text, want) in table {
            let known = |name: &str| match name {
                "A" => Some("1"),
                "B" => Some("2"),
                _ => None,
            };
            assert_eq!(expand(text, &mut Room::default(), known).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_a_process_cannot_be_given_is_not_made() {
        let long = "x".repeat(BYTES_MAX / 2);
        let known = |_: &str| Some(long.as_str());
        let mut room = Room::default();
        assert_eq!(expand("$(A)$(A)", &mut room, known).map(|it| it.len()), Ok(BYTES_MAX));
        assert_eq!(expand("$(A)", &mut room, known), Err(TooLong));
        assert_eq!(expand("$(A)$(A)$(A)", &mut Room::default(), known), Err(TooLong));
    }

    #[test]
    fn unterminated_names_are_expanded_in_linear_time() {
        let open = "$(".repeat(1_000_000);
        let known = |_: &str| None;
        assert_eq!(expand(&open, &mut Room::default(), known).as_deref(), Ok(open.as_str()));
    }
}
