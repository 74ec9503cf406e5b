// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Plots as SVG, to be put into a page.
//!
//! Text and axes are drawn in [`INK`], lines of the mesh in [`FAINT`], on no background: the page's
//! style sheet replaces both by what its theme wants.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// What text and axes are drawn in.
pub const INK: &str = "#000000";
/// What the mesh is drawn in.
pub const FAINT: &str = "#808080";

const INK_COLOUR: RGBColor = RGBColor(0, 0, 0);
const FAINT_COLOUR: RGBColor = RGBColor(0x80, 0x80, 0x80);
const FONT: &str = "sans-serif";

/// The colour of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// As in HTML.
    pub fn css(self) -> String {
        format!("#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }

    const fn rgb(self) -> RGBColor {
        RGBColor(self.0, self.1, self.2)
    }
}

/// The shape of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Circle,
    /// A triangle.
    Triangle,
}

/// A mark in a [`scatter`] plot: a point, a second one above it, and the points it is the median
/// of.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its place along the x axis.
    pub x: f64,
    /// Its place along the y axis.
    pub y: f64,
    /// The upper end of the line that begins at it.
    pub upper: f64,
    /// The single measurements.
    pub repeats: Vec<(f64, f64)>,
    /// Whose it is.
    pub colour: Colour,
    /// Which kind it is.
    pub shape: Shape,
}

/// Marks over two axes that begin at 0 (x) and are logarithmic (y).
///
/// # Errors
///
/// A value that cannot be drawn.
pub fn scatter(size: (u32, u32), x: &str, y: &str, marks: &[Mark]) -> anyhow::Result<String> {
    let all = || marks.iter().flat_map(|mark| [(mark.x, mark.y), (mark.x, mark.upper)]);
    let right = all().map(|(x, _)| x).fold(0.0, f64::max) * 1.08;
    let top = all().map(|(_, y)| y).fold(0.0, f64::max) * 1.3;
    let bottom = all().map(|(_, y)| y).fold(f64::INFINITY, f64::min) / 1.3;
    let drawable = |value: f64| value.is_finite() && value > 0.0;
    if ![right, top, bottom].into_iter().all(drawable) {
        return Err(anyhow!("nothing to draw: {marks:?}"));
    }
    drawing(size, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(46)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..right, (bottom..top).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT_COLOUR.mix(0.35))
            .axis_style(INK_COLOUR)
            .label_style((FONT, 15, &INK_COLOUR))
            .axis_desc_style((FONT, 16, &INK_COLOUR))
            .x_desc(x)
            .y_desc(y)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        for mark in marks {
            let colour = mark.colour.rgb();
            let inside = |(x, y): &(f64, f64)| *x <= right && (bottom..=top).contains(y);
            let faint = colour.mix(0.35).filled();
            let repeats = mark.repeats.iter().copied().filter(inside);
            chart.draw_series(repeats.map(|at| Circle::new(at, 2, faint)))?;
            let line = vec![(mark.x, mark.y), (mark.x, mark.upper)];
            chart.draw_series([PathElement::new(line, colour.stroke_width(2))])?;
            let (at, upper) = ((mark.x, mark.y), (mark.x, mark.upper));
            let hollow = colour.stroke_width(2);
            match mark.shape {
                Shape::Circle => {
                    chart.draw_series([
                        Circle::new(at, 6, colour.filled()),
                        Circle::new(upper, 5, hollow),
                    ])?;
                }
                Shape::Triangle => {
                    // In pixels around its place: plotters' own triangle cannot be hollow.
                    let outline = vec![(0, -6), (6, 5), (-6, 5), (0, -6)];
                    let outline = EmptyElement::at(upper) + PathElement::new(outline, hollow);
                    chart.draw_series([TriangleMarker::new(at, 8, colour.filled())])?;
                    chart.draw_series([outline])?;
                }
            }
        }
        Ok(())
    })
}

/// A line in a [`bars`] plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What stands before it.
    pub label: String,
    /// How long it is; what does not fit is cut, and said in numbers.
    pub value: f64,
    /// Whose it is.
    pub colour: Colour,
}

/// Height of one bar with its distance to the next.
const PITCH: u32 = 26;

/// Horizontal bars, one below the other, with their values in percent. The scale ends at `limit`.
///
/// # Errors
///
/// A value that cannot be drawn.
pub fn bars(width: u32, limit: f64, bars: &[Bar]) -> anyhow::Result<String> {
    const LABEL: i32 = 165;
    const NUMBER: i32 = 120;
    let count = u32::try_from(bars.len())?;
    let room = i32::try_from(width)? - LABEL - NUMBER;
    drawing((width, count * PITCH + 4), |area| {
        let middle_left = Pos::new(HPos::Left, VPos::Center);
        let middle_right = Pos::new(HPos::Right, VPos::Center);
        let text = |pos| (FONT, 15).into_font().color(&INK_COLOUR).pos(pos);
        let mut top = 2;
        for bar in bars {
            let middle = top + PITCH as i32 / 2;
            #[expect(clippy::cast_possible_truncation, reason = "a share of the room")]
            let length = (f64::from(room) * (bar.value / limit).clamp(0.0, 1.0)) as i32;
            let corners = [(LABEL, top + 4), (LABEL + length.max(1), top + PITCH as i32 - 4)];
            area.draw(&Text::new(bar.label.clone(), (LABEL - 8, middle), text(middle_right)))?;
            area.draw(&Rectangle::new(corners, bar.colour.rgb().filled()))?;
            let cut = if bar.value > limit { " (cut)" } else { "" };
            let number = format!("{:.2} %{cut}", bar.value);
            area.draw(&Text::new(number, (LABEL + length + 6, middle), text(middle_left)))?;
            top += PITCH as i32;
        }
        Ok(())
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawError = DrawingAreaErrorKind<std::io::Error>;

fn drawing(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&area).and_then(|()| area.present()).map_err(|error| anyhow!("plot: {error}"))?;
    }
    Ok(svg)
}

/// A number on an axis.
fn short(value: f64) -> String {
    if value >= 10.0 || value == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOUR: Colour = Colour(1, 2, 0xab);

    fn mark(x: f64, y: f64, upper: f64) -> Mark {
        let repeats = vec![(x, y), (x * 1e6, y)];
        Mark { x, y, upper, repeats, colour: COLOUR, shape: Shape::Circle }
    }

    #[test]
    fn every_mark_is_drawn_with_its_repeats() {
        let svg = scatter(
            (400, 300),
            "CPU <us>",
            "latency",
            &[mark(1.0, 2.0, 30.0), Mark { shape: Shape::Triangle, ..mark(3.0, 4.0, 5.0) }],
        )
        .unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        // Two repeats that are on the plot, one circle filled and one hollow.
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("CPU &lt;us&gt;"));
        assert!(svg.contains(INK) && svg.contains(FAINT) && svg.contains(&COLOUR.css()));
    }

    #[test]
    fn what_cannot_be_drawn_is_an_error() {
        assert!(scatter((400, 300), "x", "y", &[]).is_err());
        assert!(scatter((400, 300), "x", "y", &[mark(1.0, f64::INFINITY, 1.0)]).is_err());
        assert!(scatter((400, 300), "x", "y", &[mark(1.0, 0.0, 1.0)]).is_err());
    }

    #[test]
    fn a_bar_beyond_the_scale_is_cut_and_says_so() {
        let bar = |value| Bar { label: "user-space always".to_owned(), value, colour: COLOUR };
        let svg = bars(600, 2.0, &[bar(1.0), bar(100.0)]).unwrap();
        assert!(svg.contains("1.00 %\n") && svg.contains("100.00 % (cut)\n"));
        assert_eq!(svg.matches("<rect").count(), 2);
    }
}
