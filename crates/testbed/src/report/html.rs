// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The benchmark's results as one page that needs nothing but itself.

use std::fmt::Write as _;

use super::plot::{self, Bar, Colour, Mark, Shape};
use crate::halt::comparison::{Comparison, Verdict};
use crate::halt::figures::{HaltRow, Series};
use crate::halt::plan::Phase;
use crate::halt::rows::{Mechanism, Row, RowPolicy};
use crate::halt::think::Think;

/// What the page is about.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The rows, both think times of each.
    pub rows: &'a [HaltRow],
    /// What they are the medians of.
    pub series: &'a [(Row, Series)],
    /// What the run says about the promises.
    pub comparisons: &'a [Comparison],
    /// What a reader has to know about how this was measured.
    pub notes: &'a [String],
    /// The host and the run: names and values.
    pub facts: &'a [(&'static str, String)],
    /// The command that makes such a page.
    pub command: &'a str,
}

/// A column of the table: its heading, its unit, and its figure.
type Column = (&'static str, &'static str, fn(&HaltRow) -> f64);

const COLUMNS: [Column; 6] = [
    ("idle", "% CPU", |row| row.idle_cpu_pct),
    ("idle, 250 Hz", "% CPU", |row| row.idle_250hz_cpu_pct),
    ("latency p50", "µs", |row| row.rr_p50_us),
    ("latency p99", "µs", |row| row.rr_p99_us),
    ("CPU per request", "µs", |row| row.cpu_per_rr_us),
    ("wake-ups", "1/s", |row| row.wakeups_per_s),
];

const STYLE: &str = include_str!("page.css");

/// The whole page.
///
/// # Errors
///
/// A figure that cannot be drawn.
pub fn page(page: &Page<'_>) -> anyhow::Result<String> {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>testbed halt</title>\n",
    );
    let _ = writeln!(html, "<style>\n{STYLE}</style>\n<h1>What a halted vCPU costs</h1>");
    html.push_str(
        "<p>Every row is a vCPU of its own: who handles its halts (KVM in the kernel, or the VMM \
         in user space), and how long a halt polls for the wake-up before it sleeps. All rows were \
         measured in turn in one run; the figures are medians over its repeats.</p>\n",
    );
    comparisons(&mut html, page.comparisons);
    html.push_str("<h2>Latency against CPU time</h2>\n");
    legend(&mut html, page.rows);
    html.push_str("<div class=\"plots\">\n");
    for think in Think::ALL {
        let marks = marks(page, think);
        let plot = plot::scatter(
            (560, 400),
            "CPU time of the vCPU's thread per request, µs",
            "latency of a request, µs",
            &marks,
        )?;
        let _ = writeln!(
            html,
            "<figure><figcaption>{} think times: {}</figcaption>\n{plot}</figure>",
            capital(think.name()),
            think_words(think),
        );
    }
    html.push_str("</div>\n<h2>CPU time while idle</h2>\n<div class=\"plots\">\n");
    for (caption, figure) in [("no timer", COLUMNS[0].2), ("a 250 Hz timer", COLUMNS[1].2)] {
        let bars = bars(page.rows, figure);
        let plot = plot::bars(560, scale(page.rows, figure), &bars)?;
        let _ = writeln!(
            html,
            "<figure><figcaption>Share of a CPU, with {caption}</figcaption>\n{plot}</figure>"
        );
    }
    html.push_str("</div>\n<h2>Figures</h2>\n");
    table(&mut html, page.rows);
    if !page.notes.is_empty() {
        html.push_str("<h2>How to read this</h2>\n<ul>\n");
        for note in page.notes {
            let _ = writeln!(html, "<li>{}</li>", escape(note));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("<h2>Host and run</h2>\n<table class=\"facts\">\n");
    for (name, value) in page.facts {
        let _ = writeln!(html, "<tr><th>{}<td>{}", escape(name), escape(value));
    }
    let _ =
        writeln!(html, "</table>\n<h2>Again</h2>\n<pre>{}</pre>\n</html>", escape(page.command));
    Ok(html)
}

fn comparisons(html: &mut String, comparisons: &[Comparison]) {
    if comparisons.is_empty() {
        return;
    }
    html.push_str("<ul class=\"verdicts\">\n");
    for comparison in comparisons {
        let class = match comparison.verdict() {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::Undecided => "undecided",
        };
        let _ = writeln!(html, "<li class=\"{class}\">{}</li>", escape(&comparison.to_string()));
    }
    html.push_str("</ul>\n");
}

fn legend(html: &mut String, rows: &[HaltRow]) {
    html.push_str("<p class=\"legend\">");
    for row in rows.iter().filter(|row| row.think == Think::Steady) {
        let mark = match shape(row.mechanism) {
            Shape::Circle => "<circle cx=\"7\" cy=\"7\" r=\"5\"/>",
            Shape::Triangle => "<path d=\"M7 1 13 12H1z\"/>",
        };
        let _ = write!(
            html,
            "<span><svg width=\"14\" height=\"14\" fill=\"{}\">{mark}</svg> {}</span> ",
            colour(row.policy).css(),
            name(row),
        );
    }
    html.push_str(
        "</p>\n<p>A filled mark is the median latency, the hollow one above it the 99th \
         percentile; small dots are the medians of single repeats. Left and low is better.</p>\n",
    );
}

fn marks(page: &Page<'_>, think: Think) -> Vec<Mark> {
    let repeats = |row: &HaltRow| {
        let mine = |(other, _): &&(Row, Series)| {
            (other.mechanism, other.policy) == (row.mechanism, row.policy)
        };
        let series = page.series.iter().find(mine);
        let phase = series.map_or(&[][..], |(_, series)| series.phase(Phase::Serve(think)));
        phase.iter().map(|one| (one.cpu_per_rr_us(), one.rr_p50_us)).collect()
    };
    page.rows
        .iter()
        .filter(|row| row.think == think)
        .map(|row| Mark {
            x: row.cpu_per_rr_us,
            y: row.rr_p50_us,
            upper: row.rr_p99_us,
            repeats: repeats(row),
            colour: colour(row.policy),
            shape: shape(row.mechanism),
        })
        .collect()
}

fn bars(rows: &[HaltRow], figure: fn(&HaltRow) -> f64) -> Vec<Bar> {
    rows.iter()
        .filter(|row| row.think == Think::Steady)
        .map(|row| Bar { label: name(row), value: figure(row), colour: colour(row.policy) })
        .collect()
}

/// Where the bars' scale ends: always polling is far beyond everything else.
fn scale(rows: &[HaltRow], figure: fn(&HaltRow) -> f64) -> f64 {
    let others = rows.iter().filter(|row| row.policy != RowPolicy::Always).map(figure);
    others.fold(0.0, f64::max).max(0.01) * 1.1
}

fn table(html: &mut String, rows: &[HaltRow]) {
    html.push_str(
        "<div class=\"wide\"><table>\n<tr><th>back end<th>halts<th>policy<th>think times",
    );
    for (heading, unit, _) in COLUMNS {
        let _ = write!(html, "<th class=\"number\">{heading}<br><small>{unit}</small>");
    }
    html.push('\n');
    for row in rows {
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td>{}<td>{}",
            row.backend.name(),
            row.mechanism.name(),
            row.policy.name(),
            row.think.name()
        );
        for (_, _, figure) in COLUMNS {
            let _ = write!(html, "<td class=\"number\">{}", figures(figure(row)));
        }
        html.push('\n');
    }
    html.push_str("</table></div>\n");
}

/// Three figures or so.
fn figures(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn name(row: &HaltRow) -> String {
    format!("{} {}", row.mechanism.name(), row.policy.name())
}

const fn shape(mechanism: Mechanism) -> Shape {
    match mechanism {
        Mechanism::InKernel => Shape::Triangle,
        Mechanism::UserSpace => Shape::Circle,
    }
}

/// Colours that can be told apart on white and on black, and by most who see few colours.
const fn colour(policy: RowPolicy) -> Colour {
    match policy {
        RowPolicy::Never => Colour(0x00, 0x72, 0xb2),
        RowPolicy::Always => Colour(0xd5, 0x5e, 0x00),
        RowPolicy::Fixed => Colour(0xcc, 0x79, 0xa7),
        RowPolicy::Kernel => Colour(0xe6, 0x9f, 0x00),
        RowPolicy::Adaptive => Colour(0x00, 0x9e, 0x73),
    }
}

const fn think_words(think: Think) -> &'static str {
    match think {
        Think::Steady => "one request after the other",
        Think::Bursty => "bursts and pauses",
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halt::figures::tests::sample;
    use crate::halt::rows::{Backend, rows};

    fn sample_page() -> String {
        let rows: Vec<_> = rows(Backend::Kvm)
            .into_iter()
            .flat_map(|row| Think::ALL.map(|think| sample(row, think)))
            .collect();
        page(&Page {
            rows: &rows,
            series: &[],
            comparisons: &Comparison::of(&rows),
            notes: &["1 < 2 & 3".to_owned()],
            facts: &[("CPU", "A<B".to_owned())],
            command: "testbed halt --html \"a\"",
        })
        .unwrap()
    }

    #[test]
    fn the_page_needs_nothing_but_itself() {
        let html = sample_page();
        for outside in ["<script", "<link", "<img", "@import", "url(", "src="] {
            assert!(!html.contains(outside), "{outside}");
        }
        let addresses: Vec<_> = html
            .match_indices("http")
            .map(|(at, _)| &html[at..(at + 26).min(html.len())])
            .collect();
        // Names of XML, nothing that is fetched.
        assert!(addresses.iter().all(|it| *it == "http://www.w3.org/2000/svg"), "{addresses:?}");
    }

    #[test]
    fn every_row_is_in_the_table_with_its_back_end() {
        let html = sample_page();
        assert_eq!(html.matches("<tr><td>threads<td>").count(), 16);
        assert_eq!(html.matches("<svg ").count(), 4 + 8);
    }

    #[test]
    fn text_is_escaped() {
        let html = sample_page();
        assert!(html.contains("1 &lt; 2 &amp; 3") && html.contains("A&lt;B"));
        assert!(html.contains("--html &quot;a&quot;"));
    }

    #[test]
    fn colours_of_the_plots_follow_the_theme() {
        // The style sheet names the colours that plots are drawn in.
        for colour in [plot::INK, plot::FAINT] {
            assert!(STYLE.contains(colour), "{colour}");
        }
    }
}
