//! The resources of pressure stall information (PSI) with their figures, for all screens.

use crate::figures::pressure::{
    PSI_CPU_SOME_10S_RATIO, PSI_CPU_SOME_60S_RATIO, PSI_CPU_SOME_300S_RATIO, PSI_CPU_SOME_RATIO, PSI_IO_FULL_10S_RATIO,
    PSI_IO_FULL_60S_RATIO, PSI_IO_FULL_300S_RATIO, PSI_IO_FULL_RATIO, PSI_IO_SOME_10S_RATIO, PSI_IO_SOME_60S_RATIO,
    PSI_IO_SOME_300S_RATIO, PSI_IO_SOME_RATIO, PSI_IRQ_FULL_10S_RATIO, PSI_IRQ_FULL_60S_RATIO, PSI_IRQ_FULL_300S_RATIO,
    PSI_IRQ_FULL_RATIO, PSI_MEMORY_FULL_10S_RATIO, PSI_MEMORY_FULL_60S_RATIO, PSI_MEMORY_FULL_300S_RATIO,
    PSI_MEMORY_FULL_RATIO, PSI_MEMORY_SOME_10S_RATIO, PSI_MEMORY_SOME_60S_RATIO, PSI_MEMORY_SOME_300S_RATIO,
    PSI_MEMORY_SOME_RATIO,
};
use crate::figures::{Column, FigureInput};
use crate::findings::Evaluation;
use crate::interval::pressure::PressureSpan;
use crate::safe;
use crate::view::safe_text::SafeText;
use crate::view::text::format_figure;
use crate::view::theme::StyleRole;

/// Of the interval, and the averages of 10, 60 and 300 s.
pub type Figures = [&'static Column<PressureSpan>; 4];

/// A resource with its lines `some` and `full`.
pub struct Resource {
    pub name: &'static str,
    /// For a line with little room
    pub short_name: &'static str,
    pub some: Option<Figures>,
    pub full: Option<Figures>,
}

pub static RESOURCES: [Resource; 4] = [
    Resource {
        name: "cpu",
        short_name: "cpu",
        some: Some([&PSI_CPU_SOME_RATIO, &PSI_CPU_SOME_10S_RATIO, &PSI_CPU_SOME_60S_RATIO, &PSI_CPU_SOME_300S_RATIO]),
        full: None,
    },
    Resource {
        name: "io",
        short_name: "io",
        some: Some([&PSI_IO_SOME_RATIO, &PSI_IO_SOME_10S_RATIO, &PSI_IO_SOME_60S_RATIO, &PSI_IO_SOME_300S_RATIO]),
        full: Some([&PSI_IO_FULL_RATIO, &PSI_IO_FULL_10S_RATIO, &PSI_IO_FULL_60S_RATIO, &PSI_IO_FULL_300S_RATIO]),
    },
    Resource {
        name: "memory",
        short_name: "mem",
        some: Some([
            &PSI_MEMORY_SOME_RATIO,
            &PSI_MEMORY_SOME_10S_RATIO,
            &PSI_MEMORY_SOME_60S_RATIO,
            &PSI_MEMORY_SOME_300S_RATIO,
        ]),
        full: Some([
            &PSI_MEMORY_FULL_RATIO,
            &PSI_MEMORY_FULL_10S_RATIO,
            &PSI_MEMORY_FULL_60S_RATIO,
            &PSI_MEMORY_FULL_300S_RATIO,
        ]),
    },
    Resource {
        name: "irq",
        short_name: "irq",
        some: None,
        full: Some([&PSI_IRQ_FULL_RATIO, &PSI_IRQ_FULL_10S_RATIO, &PSI_IRQ_FULL_60S_RATIO, &PSI_IRQ_FULL_300S_RATIO]),
    },
];

impl Resource {
    /// The role of a share of the interval. Only memory has a threshold.
    pub fn role(&self, evaluation: &Evaluation, share: Option<f64>) -> StyleRole {
        match share {
            Some(share) if self.name == "memory" && share >= evaluation.thresholds().memory_pressure_ratio => {
                StyleRole::Warning
            }
            Some(share) if share > 0.0 => StyleRole::Plain,
            _ => StyleRole::Dim,
        }
    }
}

/// The resources for which some task may wait, with the figures of that.
pub fn waiting() -> impl Iterator<Item = (&'static Resource, Figures)> {
    RESOURCES.iter().filter_map(|resource| Some((resource, resource.some?)))
}

/// The share of the host.
pub fn share(evaluation: &Evaluation, figure: &Column<PressureSpan>) -> Option<f64> {
    figure.number(&FigureInput::from(evaluation), &evaluation.interval.pressure)
}

/// In per cent in at least `cells`, without the sign; `-` if it is unknown.
pub fn percent(evaluation: &Evaluation, figure: &Column<PressureSpan>, cells: usize) -> SafeText {
    let text = format_figure(figure, &FigureInput::from(evaluation), &evaluation.interval.pressure, 5);
    safe!("{text:>cells$}")
}
