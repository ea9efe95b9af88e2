//! The picture of `tollgate top` in the documents: the screen of a real terminal as SVG. `UPDATE=1` draws it anew.
//!
//! Blocks and bars are drawn as rectangles, so that no font leaves gaps between them.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fmt::Write;
use std::path::Path;

use vt100::{Cell, Color, Screen};

use crate::top::recorded_gate::RecordedGate;
use crate::top::terminal::Terminal;

#[test]
fn the_picture_in_the_documents_is_the_screen_of_today() {
    let gate = RecordedGate::start();
    let terminal = Terminal::start(&gate.socket, &[], &[]);
    terminal.wait_for("198.51.100.23");
    terminal.resize(28, 110);
    // The last line is drawn last.
    terminal.wait_until("28 lines", |text| text.lines().nth(27).is_some_and(|line| line.contains("? help")));
    let svg = draw(terminal.screen.lock().unwrap().screen());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/img/top.svg");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &svg).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == svg, "docs/img/top.svg is another one: UPDATE=1 draws it anew\n{}", terminal.text());
}

fn draw(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, rows * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"tollgate top\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"14\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for row in 0..rows {
        let cells: Vec<&Cell> = (0..columns).map(|column| screen.cell(row, column).unwrap()).collect();
        let mut column = 0;
        for run in cells.chunk_by(|a, b| look(a) == look(b) && is_block(a) == is_block(b)) {
            draw_run(&mut svg, (row, column), run);
            column += u16::try_from(run.len()).unwrap();
        }
    }
    svg + "</svg>\n"
}

/// Cells of one look, side by side.
fn draw_run(svg: &mut String, (row, column): (u16, u16), run: &[&Cell]) {
    let (ink, is_inverse, is_bold) = look(run[0]);
    let (x, y) = (MARGIN + column * CELL.0, MARGIN + row * CELL.1);
    let width = u16::try_from(run.len()).unwrap() * CELL.0;
    let ink = if is_inverse {
        writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{ink}\"/>", CELL.1)
            .unwrap();
        PAPER
    } else {
        ink
    };
    if is_block(run[0]) {
        run.iter()
            .zip(0..)
            .for_each(|(cell, at)| draw_block(svg, (x + at * CELL.0, y), ink, cell.contents()));
        return;
    }
    let text: String =
        run.iter().map(|cell| if cell.has_contents() { cell.contents() } else { " " }).collect();
    if text.trim().is_empty() {
        return;
    }
    // Plain blanks in a row would become one.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace(' ', "\u{a0}");
    let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
    let baseline = y + 13;
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"{baseline}\" textLength=\"{width}\" fill=\"{ink}\"{weight}>{text}</text>"
    )
    .unwrap();
}

/// Eighths of a cell from below or from the left, or a shade of it.
fn draw_block(svg: &mut String, (x, y): (u16, u16), ink: &str, block: &str) {
    let block = block.chars().next().unwrap();
    let (full_width, full_height) = (f64::from(CELL.0), f64::from(CELL.1));
    let (width, height, opacity) = match block {
        SHADE => (full_width, full_height, "0.3"),
        '\u{2581}'..='\u{2588}' => {
            (full_width, full_height * f64::from(u32::from(block) - 0x2580) / 8.0, "1")
        }
        _ => (full_width * f64::from(0x2590 - u32::from(block)) / 8.0, full_height, "1"),
    };
    let top = f64::from(y) + full_height - height;
    writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"{ink}\" fill-opacity=\"{opacity}\"/>"
    )
    .unwrap();
}

fn is_block(cell: &Cell) -> bool {
    cell.contents()
        .chars()
        .next()
        .is_some_and(|block| ('\u{2581}'..='\u{258f}').contains(&block) || block == SHADE)
}

/// Colour, whether it is the background's, and weight.
fn look(cell: &Cell) -> (&'static str, bool, bool) {
    let ink = match cell.fgcolor() {
        Color::Default => "#d5dae3",
        Color::Idx(1 | 9) => "#ff7b72",
        Color::Idx(2 | 10) => "#56d364",
        Color::Idx(3 | 11) => "#e3b341",
        Color::Idx(8) => "#8b95a5",
        other => unreachable!("{other:?} is no colour of the palette"),
    };
    (ink, cell.inverse(), cell.bold())
}

const PAPER: &str = "#0f141b";
const SHADE: char = '░';
/// Width and height of a cell.
const CELL: (u16, u16) = (9, 18);
const MARGIN: u16 = 12;
