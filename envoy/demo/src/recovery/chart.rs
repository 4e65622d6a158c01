//! The curves of all rows, as SVG: the load on the origin above, the callers that are served below.

use super::{CAPACITY, Course, Kind, RATE, WATCHED};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;
use std::path::Path;

const SIZE: (u32, u32) = (960, 640);
/// The legend's part of the width.
const LEGEND: u32 = 220;
/// What is shown, in seconds since the end of the stall.
const SPAN: Range<f64> = -7.0..WATCHED;
/// Powers of ten: without retries the load is a tenth of what three attempts make of it.
const LOAD: Range<f64> = 0.0..3.5;
const SERVED: Range<f64> = 0.0..80.0;

const PAPER: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(31, 35, 40);
const LINES: RGBColor = RGBColor(208, 215, 222);
const STALL: RGBColor = RGBColor(234, 238, 242);

/// The same picture on a dark page: the curves' own colours are readable on both.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) { \
    rect[fill=\"#FFFFFF\"] { fill: #0d1117 } rect[fill=\"#EAEEF2\"] { fill: #21262d } \
    [stroke=\"#D0D7DE\"] { stroke: #3d444d } [stroke=\"#1F2328\"] { stroke: #d1d7e0 } \
    text { fill: #e6edf3 } }</style>";

/// Draws it to this file.
pub fn draw(courses: &[(Kind, Course)], file: &Path) -> Result<()> {
    let mut svg = String::new();
    draw_to(courses, SVGBackend::with_string(&mut svg, SIZE).into_drawing_area()).map_err(|e| anyhow!("{e}"))?;
    let head = svg.find("<rect").ok_or_else(|| anyhow!("an SVG without background"))?;
    svg.insert_str(head, &format!("{DARK}\n"));
    Ok(std::fs::write(file, svg)?)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw_to(courses: &[(Kind, Course)], area: Area) -> Drawn {
    area.fill(&PAPER)?;
    let (panels, legend) = area.split_horizontally(SIZE.0 - LEGEND);
    let (above, below) = panels.split_vertically(SIZE.1 / 2);
    let power = |exponent: &f64| match 10f64.powf(*exponent) {
        rate if rate > 1.0 => format!("{rate:.0}"),
        // Nothing at all has no logarithm.
        _ => "≤ 1".to_string(),
    };
    let load = Panel {
        title: "Calls at the origin",
        unit: "calls/s (log scale)",
        range: LOAD,
        labels: 4,
        label: &power,
        // Below the curves, which are just under the line and above.
        mark: (CAPACITY.log10(), "dashed: what it can do, 100/s", CAPACITY.log10() - 0.4),
        curve: &|course| course.load_curve().into_iter().map(|(at, rate)| (at, rate.max(1.0).log10())).collect(),
    };
    let number = |rate: &f64| format!("{rate:.0}");
    let served = Panel {
        title: "Callers served within 1 s",
        unit: "calls/s",
        range: SERVED,
        labels: 5,
        label: &number,
        mark: (f64::from(RATE), "dashed: all of them, 70/s", f64::from(RATE) + 4.0),
        curve: &Course::served_curve,
    };
    load.draw(courses, &above)?;
    served.draw(courses, &below)?;
    draw_legend(courses, &legend)?;
    Ok(area.present()?)
}

/// One of the two diagrams.
struct Panel<'a> {
    title: &'a str,
    unit: &'a str,
    range: Range<f64>,
    labels: usize,
    label: &'a dyn Fn(&f64) -> String,
    /// A line to compare with, what it is, and where that stands.
    mark: (f64, &'a str, f64),
    curve: &'a dyn Fn(&Course) -> Vec<(f64, f64)>,
}

impl Panel<'_> {
    fn draw(&self, courses: &[(Kind, Course)], area: &Area) -> Drawn {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .caption(self.title, text(19))
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(SPAN, self.range.clone())?;
        let stall = courses.first().map_or(0.0, |(_, course)| course.stall);
        let (bottom, top) = (self.range.start, self.range.end);
        chart.draw_series([Rectangle::new([(-stall, bottom), (0.0, top)], STALL.filled())])?;
        chart
            .configure_mesh()
            .axis_style(LINES)
            .bold_line_style(LINES)
            .light_line_style(TRANSPARENT)
            .label_style(text(16))
            .axis_desc_style(text(16))
            .x_desc("seconds since the end of the stall")
            .x_labels(8)
            .x_label_formatter(&|at| format!("{at:.0}"))
            .y_desc(self.unit)
            .y_labels(self.labels)
            .y_label_formatter(&|value| (self.label)(value))
            .draw()?;
        let (mark, what, height) = self.mark;
        chart.draw_series(DashedLineSeries::new([(SPAN.start, mark), (SPAN.end, mark)], 4, 4, INK.stroke_width(1)))?;
        let note = |at, value, what: &str, pos| Text::new(what.to_string(), (at, value), text(15).pos(pos));
        chart.draw_series([
            note(SPAN.end, height, what, Pos::new(HPos::Right, VPos::Center)),
            note(-stall / 2.0, top, "stall", Pos::new(HPos::Center, VPos::Top)),
        ])?;
        for (kind, course) in courses {
            let points = (self.curve)(course).into_iter().filter(|(at, _)| SPAN.contains(at));
            chart.draw_series(LineSeries::new(points, line(*kind)))?;
        }
        Ok(())
    }
}

fn draw_legend(courses: &[(Kind, Course)], area: &Area) -> Drawn {
    let (mut y, step) = (72, 52);
    area.draw(&Text::new("served again after", (12, y - 44), text(16)))?;
    for (kind, course) in courses {
        area.draw(&PathElement::new([(12, y), (36, y)], line(*kind)))?;
        area.draw(&Text::new(kind.short(), (44, y - 9), text(16)))?;
        area.draw(&Text::new(course.verdict(), (44, y + 9), text(16)))?;
        y += step;
    }
    Ok(())
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Told apart also by those who do not see red and green (Okabe and Ito's colours).
fn line(kind: Kind) -> ShapeStyle {
    let (color, width) = match kind {
        Kind::NoRetries => (RGBColor(128, 134, 141), 2),
        Kind::Unlimited => (RGBColor(213, 94, 0), 2),
        Kind::EnvoysBudget => (RGBColor(230, 159, 0), 2),
        Kind::Budget => (RGBColor(86, 160, 233), 2),
        Kind::Deadlines => (RGBColor(204, 121, 167), 2),
        Kind::Breaker => (RGBColor(0, 158, 115), 4),
    };
    color.stroke_width(width)
}
