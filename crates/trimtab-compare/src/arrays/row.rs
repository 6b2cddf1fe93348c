//! The rows of a comparison.

use trimtab_device::WindowOptions;

use super::strategy::ArrayStrategy;
use super::windows::{self, Change, Windows};

/// A row: a strategy, and one length of its windows where the scenario lists several.
#[derive(Clone, Debug)]
pub(super) struct PlannedRow {
    pub(super) name: String,
    pub(super) strategy: ArrayStrategy,
    pub(super) windows: WindowOptions,
    /// What its windows are changed to.
    pub(super) then: Option<Change>,
}

impl PlannedRow {
    /// The rows of a strategy: without windows one.
    pub(super) fn of(strategy: ArrayStrategy, windows: &Windows) -> Vec<Self> {
        let Windows { options, lengths_ms, then } = windows;
        let has_windows = strategy.has_windows();
        let then = then.filter(|_| has_windows);
        if !has_windows || lengths_ms.is_empty() {
            let name = strategy.name().to_owned();
            return vec![Self { name, strategy, windows: *options, then }];
        }
        let row = |&ms: &f64| Self {
            name: format!("{strategy} {}", windows::name(windows::of_ms(ms))),
            strategy,
            windows: WindowOptions { window_ms: Some(ms), ..*options },
            then,
        };
        lengths_ms.iter().map(row).collect()
    }
}
