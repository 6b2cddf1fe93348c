//! What is to be done beside requests, window by window: resynchronising, rebuilding, checking, and
//! correcting what could not be read.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use trimtab_array::Layout;
use trimtab_io::{Nanos, Op};

use crate::pace::{Pace, Rates};
use crate::regions::Regions;

/// What a window is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Something could not be read.
    Correct,
    /// Members may differ.
    Resync,
    /// A member gets what it must have.
    Rebuild { role: usize },
    /// What is to replace a member gets what that has.
    Replace { role: usize },
    /// Nothing any more.
    Abandoned,
    /// All stripes are compared.
    Check { repairs: bool },
}

/// Stripes that are being worked on.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) work: Work,
    pub(crate) stripes: Range<u64>,
    /// Whether the work has begun. Before that writes in flight must end.
    pub(crate) is_sent: bool,
}

/// A check that goes on, or has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Whether what does not fit is made to fit.
    pub repairs: bool,
    /// Stripes that have been compared.
    pub stripes: u64,
    /// Stripes that did not fit.
    pub mismatches: u64,
    /// Stripes of which too little could be read.
    pub unreadable: u64,
    /// Whether it has ended.
    pub is_complete: bool,
    /// Whether it has ended before all were compared: too many members failed.
    #[serde(default)]
    pub is_cut: bool,
}

/// A member that is being rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebuild {
    pub(crate) role: usize,
    /// The next stripe.
    pub(crate) next: u64,
    /// The member has all but what the bitmap says.
    pub(crate) by_bitmap: bool,
}

/// A member that is being replaced, and used meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replace {
    pub(crate) role: usize,
    /// The place of the device that replaces it.
    pub(crate) place: usize,
    /// The next stripe: those before it are on both.
    pub(crate) next: u64,
}

/// All tasks.
#[derive(Debug)]
pub(crate) struct Tasks {
    pub(crate) pace: Pace,
    corrections: BTreeSet<u64>,
    /// Of the first region that may differ: the stripe up to which it does not.
    resynced_to: u64,
    rebuild: Option<Rebuild>,
    replace: Option<Replace>,
    check: Option<Check>,
    window: Option<Window>,
    /// Whether there was something to do lately.
    pub(crate) is_working: bool,
    /// Writes in flight, and their stripes.
    writes: Vec<(u32, Range<u64>)>,
}

impl Tasks {
    pub(crate) fn new(rates: Rates) -> Self {
        Self {
            pace: Pace::new(rates),
            corrections: BTreeSet::new(),
            resynced_to: 0,
            rebuild: None,
            replace: None,
            check: None,
            window: None,
            is_working: false,
            writes: Vec::new(),
        }
    }

    pub(crate) fn begin_write(&mut self, number: u32, stripes: Range<u64>) {
        self.writes.push((number, stripes));
    }

    pub(crate) fn end_write(&mut self, number: u32) {
        if let Some(place) = self.writes.iter().position(|write| write.0 == number) {
            self.writes.swap_remove(place);
        }
    }

    /// A request of a program has been answered.
    pub(crate) fn completed(&mut self, op: Op, time: Range<Nanos>) {
        if self.is_working {
            self.pace.completed(op, time);
        }
    }

    /// Whether stripes are being worked on.
    pub(crate) fn is_in_window(&self, stripes: &Range<u64>) -> bool {
        self.window.as_ref().is_some_and(|window| overlap(&window.stripes, stripes))
    }

    pub(crate) const fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// When the next window may begin, if there is something to do and none has begun.
    pub(crate) fn next(&self, layout: &Layout, regions: &Regions) -> Nanos {
        if self.window.is_none() && self.is_busy(layout, regions) {
            self.pace.next()
        } else {
            Nanos::MAX
        }
    }

    pub(crate) fn correct(&mut self, stripe: u64) {
        self.corrections.insert(stripe);
    }

    pub(crate) const fn begin_rebuild(&mut self, rebuild: Rebuild) {
        self.rebuild = Some(rebuild);
    }

    pub(crate) const fn rebuild(&self) -> Option<Rebuild> {
        self.rebuild
    }

    pub(crate) fn give_up_rebuild(&mut self, role: usize) {
        self.rebuild = self.rebuild.filter(|rebuild| rebuild.role != role);
        self.abandon(Work::Rebuild { role });
    }

    /// What the window was for is to be done again.
    pub(crate) fn abandon_window(&mut self) {
        let Some(window) = &mut self.window else { return };
        if std::mem::replace(&mut window.work, Work::Abandoned) == Work::Correct {
            self.corrections.insert(window.stripes.start);
        }
    }

    /// What a window was for is given up. If it has begun its stripes stay closed until it ends.
    fn abandon(&mut self, work: Work) {
        if let Some(window) = self.window.as_mut().filter(|window| window.work == work) {
            window.work = Work::Abandoned;
            self.withdraw();
        }
    }

    pub(crate) const fn begin_replace(&mut self, replace: Replace) {
        self.replace = Some(replace);
    }

    pub(crate) const fn replace(&self) -> Option<Replace> {
        self.replace
    }

    /// Stripes are on the member that is being replaced and on what replaces it.
    pub(crate) const fn replaced(&mut self, stripes: &Range<u64>) {
        if let Some(replace) = &mut self.replace {
            replace.next = stripes.end;
        }
    }

    pub(crate) fn end_replace(&mut self) {
        if let Some(Replace { role, .. }) = self.replace.take() {
            self.abandon(Work::Replace { role });
        }
    }

    fn is_replacing(&self, layout: &Layout) -> bool {
        self.replace.is_some_and(|replace| replace.next < layout.stripes())
    }

    /// Stripes of which the member that is being rebuilt has everything: they need no window. No
    /// write to them is in flight, because that would have set their bits.
    pub(crate) fn skipped(
        &self,
        layout: &Layout,
        regions: &Regions,
    ) -> Option<(usize, Range<u64>)> {
        let Rebuild { role, next, by_bitmap } = self.rebuild?;
        let to = regions.next_marked(next * layout.chunk()) / layout.chunk();
        (by_bitmap && to > next).then_some((role, next..to))
    }

    pub(crate) fn begin_check(&mut self, repairs: bool) {
        self.check = Some(Check { repairs, ..Check::default() });
    }

    /// Members have failed: without them nothing can be compared.
    pub(crate) fn cut_check(&mut self) {
        if let Some(check) = self.check.as_mut().filter(|check| !check.is_complete) {
            (check.is_complete, check.is_cut) = (true, true);
        }
    }

    pub(crate) const fn check(&self) -> Option<Check> {
        self.check
    }

    pub(crate) const fn window(&mut self) -> Option<&mut Window> {
        self.window.as_mut()
    }

    /// Whether there is something to do.
    pub(crate) fn is_busy(&self, layout: &Layout, regions: &Regions) -> bool {
        self.window.is_some()
            || !self.corrections.is_empty()
            || !regions.is_synced()
            || self.rebuild.is_some()
            || self.is_replacing(layout)
            || self.check.is_some_and(|check| !check.is_complete)
    }

    /// The next window, if there is something to do.
    pub(crate) fn choose(&mut self, now: Nanos, layout: &Layout, regions: &Regions) {
        let all = layout.stripes();
        let chunk = layout.chunk();
        let most = (self.pace.window_bytes(now) / chunk).max(1);
        let of = |work, start: u64, end: u64| {
            let stripes = start..(start + most).min(end);
            Some(Window { work, stripes, is_sent: false })
        };
        if let Some(stripe) = self.corrections.pop_first() {
            self.window = of(Work::Correct, stripe, stripe + 1);
        } else if let Some((_, region)) = regions.first_unsynced() {
            let end = region.end.div_ceil(chunk).min(all);
            let start = (region.start / chunk).max(self.resynced_to.min(end - 1));
            self.window = of(Work::Resync, start, end);
        } else if let Some(Rebuild { role, next, .. }) = self.rebuild {
            self.window = of(Work::Rebuild { role }, next, all);
        } else if let Some(replace) = self.replace.filter(|_| self.is_replacing(layout)) {
            self.window = of(Work::Replace { role: replace.role }, replace.next, all);
        } else if let Some(check) = self.check.filter(|check| !check.is_complete) {
            let work = Work::Check { repairs: check.repairs };
            self.window = of(work, check.stripes, all);
        }
    }

    /// Gives up a window whose work has not begun.
    pub(crate) fn withdraw(&mut self) {
        self.window = self.window.take().filter(|window| window.is_sent);
    }

    /// Whether a window's writes in flight have ended.
    pub(crate) fn is_quiet(&self, stripes: &Range<u64>) -> bool {
        self.writes.iter().all(|write| !overlap(&write.1, stripes))
    }

    /// The window's work has been done. The next one waits for the rate.
    pub(crate) fn end_window(&mut self, now: Nanos, layout: &Layout) -> Option<Window> {
        let window = self.window.take()?;
        self.pace.end(now, (window.stripes.end - window.stripes.start) * layout.chunk());
        Some(window)
    }

    /// Stripes of the regions that may differ have been resynchronised.
    pub(crate) fn resynced(
        &mut self,
        stripes: &Range<u64>,
        layout: &Layout,
        regions: &mut Regions,
    ) {
        let end = stripes.end * layout.chunk();
        self.resynced_to = stripes.end;
        while let Some((region, _)) = regions.first_unsynced().filter(|one| one.1.end <= end) {
            regions.set_synced(region);
        }
        let next = regions.first_unsynced().map_or(0, |one| one.1.start / layout.chunk());
        self.resynced_to = if next >= stripes.end { 0 } else { self.resynced_to };
    }

    /// Stripes of a member have been rebuilt.
    pub(crate) fn rebuilt(&mut self, stripes: &Range<u64>) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.next = stripes.end;
        }
    }

    pub(crate) fn end_rebuild(&mut self) {
        self.rebuild = None;
    }

    /// Stripes have been compared.
    pub(crate) fn checked(
        &mut self,
        stripes: &Range<u64>,
        mismatches: u64,
        unreadable: u64,
        layout: &Layout,
    ) {
        let Some(check) = self.check.as_mut().filter(|check| !check.is_complete) else { return };
        check.stripes = stripes.end;
        check.mismatches += mismatches;
        check.unreadable += unreadable;
        check.is_complete = stripes.end == layout.stripes();
    }
}

const fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
