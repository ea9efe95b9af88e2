//! What the comparison of both logs says of the lines that were read, in words: no more than was compared.

use crate::cli::replay::text::grouped;
use crate::replay::evidence::LineComparison;

/// How many of so many lines are those that the gate wrote, to be read after their number. None of them is missing.
pub(super) fn told_words(lines: u64, compared: &LineComparison) -> String {
    let &LineComparison { found, untold, expired, .. } = compared;
    if found > 0 && found == lines && expired == 0 {
        return ", as many as the gate wrote".to_owned();
    }
    let before = lines.saturating_sub(found.saturating_add(untold));
    let figures = [
        (found, "of", "the gate told how many it wrote, and all are there"),
        (untold, "of", "no gate told"),
        (before, "", "from before the first whole hour are not compared"),
        (expired, "", "more were written, and log.retention has removed them"),
    ];
    let words = figures.into_iter().filter(|(number, ..)| *number > 0);
    let words: Vec<String> = words
        .map(|(number, of, what)| format!("{of} {} {what}", grouped(number)).trim_start().to_owned())
        .collect();
    match words.is_empty() {
        true => "; the gate told of none".to_owned(),
        false => format!("; {}", words.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(lines: u64, [found, untold, expired]: [u64; 3]) -> String {
        let written = found + expired;
        told_words(lines, &LineComparison { written, found, untold, expired, ..LineComparison::default() })
    }

    #[test]
    fn only_lines_that_the_gate_told_of_are_as_many_as_it_wrote() {
        assert_eq!(words(58, [58, 0, 0]), ", as many as the gate wrote");
        assert_eq!(
            words(1058, [1022, 36, 0]),
            "; of 1,022 the gate told how many it wrote, and all are there; of 36 no gate told"
        );
        assert_eq!(words(6, [0, 6, 0]), "; of 6 no gate told");
        assert_eq!(words(0, [0, 0, 0]), "; the gate told of none");
    }

    #[test]
    fn lines_that_are_not_compared_are_told_apart() {
        assert_eq!(
            words(9, [7, 0, 0]),
            "; of 7 the gate told how many it wrote, and all are there; 2 from before the first whole hour are not compared"
        );
        assert_eq!(words(0, [0, 0, 5]), "; 5 more were written, and log.retention has removed them");
        assert!(!words(7, [7, 0, 5]).contains("as many as"));
    }
}
