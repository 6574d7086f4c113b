//! Tables as kubectl prints them: upper-case headers, columns three spaces apart, nothing padded at the end of a line.

/// The narrowest a column that is not the last can be, as in kubectl's printer.
const WIDTH_MIN: usize = 6;
const PADDING: usize = 3;

/// A table under construction.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these column headers.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self {
            header: header.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds columns on the right, for `-o wide`; rows are then expected to have them.
    pub fn widen(mut self, header: &[&str]) -> Self {
        self.header.extend(header.iter().map(|cell| (*cell).to_owned()));
        self
    }

    /// Adds one row.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.header.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The text, one line per row, the header first.
    pub fn render(&self) -> String {
        let columns = self.header.len();
        let width = |column: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|row| row.get(column))
                .chain(self.header.get(column));
            cells
                .map(|cell| cell.chars().count() + PADDING)
                .max()
                .unwrap_or(0)
                .max(WIDTH_MIN)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                // A newline in a cell (a condition's message) would break the table apart.
                let cell = cell.replace('\n', " ");
                line.push_str(&cell);
                if column + 1 < columns {
                    line.extend(std::iter::repeat_n(' ', widths[column] - cell.chars().count()));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_three_spaces_apart_and_at_least_six_wide() {
        let mut table = Table::new(["NAME", "ON", "AGE"]);
        table.row(vec!["cluster1".into(), "a".into(), "3s".into()]);
        table.row(vec!["c".into(), "b".into(), "2d".into()]);
        assert_eq!(
            table.render(),
            "NAME       ON    AGE\n\
             cluster1   a     3s\n\
             c          b     2d\n"
        );
    }

    #[test]
    fn an_empty_last_cell_leaves_no_trailing_space() {
        let mut table = Table::new(["NAME", "MESSAGE"]);
        table.row(vec!["work-with-a-long-name".into(), String::new()]);
        assert_eq!(
            table.render(),
            "NAME                    MESSAGE\nwork-with-a-long-name\n"
        );
    }

    #[test]
    fn wide_columns_come_after_the_others() {
        let mut table = Table::new(["NAME"]).widen(&["AGE"]);
        table.row(vec!["a".into(), "1s".into()]);
        assert_eq!(table.render(), "NAME   AGE\na      1s\n");
    }
}
