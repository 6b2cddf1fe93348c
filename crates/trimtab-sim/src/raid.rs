//! Parity arrays and mirrors of simulated drives: the back end of [`trimtab_array::driver`] in
//! virtual time.

use trimtab_array::driver::{ArrayDriver, DriverOptions, Figures, Load, Staged, UserIo};
use trimtab_array::planner::Planner;
use trimtab_array::staging::{Staging, StagingCounts, StagingOptions};
use trimtab_device::{ControllerSettings, Ssd, SsdStats, WindowController};
use trimtab_io::{HostEvent, Nanos, Request};
use trimtab_steer::Replica;
use trimtab_steer::driver::{Backend, Completed, Wake};

use crate::array::{ArrayDrive, Sampler, Simulated};
use crate::error::Error;
use crate::source::Source;

/// How an array is run.
#[derive(Clone, Debug, Default)]
pub struct RaidOptions {
    /// As for every back end.
    pub driver: DriverOptions,
    /// Drives that begin to clean make the others clean too, where their firmware has that
    /// (Harmonia).
    pub clean_together: bool,
    /// The host manages the windows of drives that clean in windows (IODA, §7.2).
    pub host_windows: Option<ControllerSettings>,
    /// Times at which the run is cut in parts, in order.
    pub cuts: Vec<Nanos>,
    /// A write buffer of the host before the drives.
    pub staging: Option<StagingOptions>,
}

/// The result of a run.
#[derive(Debug)]
pub struct RaidRun {
    /// The figures.
    pub figures: Figures,
    /// The drives afterwards. Those of a run that ended by a number of reads have requests in
    /// flight.
    pub drives: Vec<ArrayDrive>,
    /// The length of the windows in the end, where the host manages them.
    pub window: Option<Nanos>,
    /// Requests of the user that had arrived and were not complete in the end.
    pub outstanding: u64,
    /// Its parts: one for each of [`RaidOptions::cuts`] that it came to, and the last.
    pub parts: Vec<RunPart>,
    /// What the write buffer has done, if there is one. What it holds in the end is on no drive.
    pub staging: Option<StagingCounts>,
}

/// A part of a run.
#[derive(Clone, Debug)]
pub struct RunPart {
    /// Of the requests that completed in it. The planner's counts are since it began.
    pub figures: Figures,
    /// The drives' counters at its end.
    pub drives: Vec<SsdStats>,
}

/// Serves the requests of a source with an array of drives, under a planner. `watch` is called now
/// and then with the reads judged so far.
///
/// # Errors
/// The source cannot be read on or does not fit, a drive does not take a request, or makes no
/// progress.
///
/// # Panics
/// The planner has another number of members than there are drives.
pub fn run_raid(
    drives: Vec<ArrayDrive>,
    planner: Planner,
    source: Source,
    options: RaidOptions,
    watch: &mut dyn FnMut(u64),
) -> Result<RaidRun, Error> {
    let backend = Together {
        drives: Simulated::new(drives, None, Sampler::new(0, 0)),
        relays: options.clean_together,
    };
    let Some(staging) = options.staging else {
        let (backend, run) = serve(backend, planner, source, &options, watch)?;
        return Ok(RaidRun { drives: backend.drives.drives, ..run });
    };
    let backend = Staged::new(backend, Staging::new(planner.layout().members(), staging));
    let (backend, run) = serve(backend, planner, source, &options, watch)?;
    let (backend, staging) = backend.into_parts();
    Ok(RaidRun { drives: backend.drives.drives, staging: Some(staging.counts()), ..run })
}

/// Serves the requests; returns the back end, and the run but for what the back end has.
fn serve<'a, B: Backend<Error = Error> + Drives<'a>>(
    backend: B,
    planner: Planner,
    source: Source,
    options: &RaidOptions,
    watch: &mut dyn FnMut(u64),
) -> Result<(B, RaidRun), Error> {
    let tolerated = planner.layout().level().parities() as u32;
    let mut windows = options.host_windows.map(|settings| {
        let settings = ControllerSettings { tolerated, ..settings };
        HostWindows::new(backend.now(), backend.drives() as u64, settings)
    });
    let mut load = SourceLoad { source, error: None };
    let mut driver = ArrayDriver::new(backend, planner, options.driver);
    if let Some(windows) = &mut windows {
        windows.set(driver.backend().together());
    }
    let mut parts = Vec::new();
    let mut steps = 0_u64;
    while driver.step(&mut load)? {
        if let Some(windows) = &mut windows {
            windows.watch(&mut driver);
        }
        while options.cuts.get(parts.len()).is_some_and(|&at| driver.now() >= at) {
            let (figures, drives) = (driver.take_figures(), driver.backend().together().stats());
            parts.push(RunPart { figures, drives });
        }
        steps += 1;
        if steps.is_multiple_of(1 << 16) {
            watch(driver.reads());
        }
    }
    if let Some(error) = load.error {
        return Err(error);
    }
    let outstanding = driver.outstanding();
    let (mut backend, last) = driver.into_parts();
    parts.push(RunPart { figures: last, drives: backend.together().stats() });
    let mut figures = parts[0].figures.clone();
    parts[1..].iter().for_each(|part| figures.extend(&part.figures));
    let window = windows.map(|windows| windows.controller.length());
    let run = RaidRun { figures, drives: Vec::new(), window, outstanding, parts, staging: None };
    Ok((backend, run))
}

/// A back end, with a write buffer or without: the drives below.
trait Drives<'a> {
    fn together(&mut self) -> &mut Together<'a>;
}

impl<'a> Drives<'a> for Together<'a> {
    fn together(&mut self) -> &mut Self {
        self
    }
}

impl<'a> Drives<'a> for Staged<Together<'a>> {
    fn together(&mut self) -> &mut Together<'a> {
        self.backend()
    }
}

/// The host's side of windows that it manages itself.
///
/// The published rule changes the length every 50 ms. Drives take a length over at the end of their
/// cycle, which is longer, so that the length would grow or shrink several times before anything
/// is seen of it. Here a period is a cycle, and after a change nothing counts for one.
struct HostWindows {
    settings: ControllerSettings,
    controller: WindowController,
    /// Turns in a cycle.
    members: u64,
    /// When the drives have the length.
    settled: Nanos,
    /// Stripes that had more busy members than they can do without, so far.
    exceeded: u64,
}

impl HostWindows {
    fn new(now: Nanos, members: u64, settings: ControllerSettings) -> Self {
        let controller = WindowController::new(now, settings);
        Self { settings, controller, members, settled: now, exceeded: 0 }
    }

    /// Follows what the drives have refused.
    fn watch<'a, B: Backend + Drives<'a>>(&mut self, driver: &mut ArrayDriver<B>) {
        let now = driver.backend().now();
        if now < self.settled {
            return;
        }
        let refusals = driver.planner().counts().refusals;
        let exceeded = refusals.iter().skip(self.settings.tolerated as usize + 1).sum();
        let before = self.controller.length();
        if exceeded > self.exceeded {
            self.controller.observe(now, self.settings.tolerated + 1);
        } else if now >= self.controller.next_period() {
            self.controller.advance(now);
        }
        self.exceeded = exceeded;
        if self.controller.length() != before {
            self.set(driver.backend().together());
            // The cycle in progress, and one with the new length.
            let base = self.controller.length();
            let cycle = Nanos(base.0 * self.members);
            self.settled = now + Nanos(before.0 * self.members) + cycle;
            let settings = ControllerSettings { base, period: cycle, ..self.settings };
            self.controller = WindowController::new(self.settled, settings);
        }
    }

    /// Tells the drives the length. They take it over where their cycle begins next, so that no two
    /// of them clean at once.
    fn set(&self, drives: &mut Together<'_>) {
        let now = drives.now();
        for drive in &mut drives.drives.drives {
            let Some(windows) = drive.server.windows() else { continue };
            let next = windows.from_next_cycle(now, self.controller.length());
            drive.change(|ssd| _ = ssd.set_windows(next));
        }
    }
}

/// Drives of which each tells the others that it begins to clean.
struct Together<'a> {
    drives: Simulated<'a, Ssd>,
    relays: bool,
}

impl Together<'_> {
    fn stats(&self) -> Vec<SsdStats> {
        self.drives.drives.iter().map(|drive| drive.server.stats()).collect()
    }

    fn relay(&mut self, from: usize) {
        let drives = &mut self.drives.drives;
        if !drives[from].server.took_cleaning_start() {
            return;
        }
        let now = self.drives.now();
        for (number, drive) in self.drives.drives.iter_mut().enumerate() {
            if number != from {
                drive.rest(now);
                drive.change(|ssd| _ = ssd.clean_now());
            }
        }
    }
}

impl Backend for Together<'_> {
    type Error = Error;

    fn drives(&self) -> usize {
        self.drives.drives()
    }

    #[inline]
    fn now(&self) -> Nanos {
        self.drives.now()
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Result<Wake, Error> {
        let wake = self.drives.wait(until)?;
        if let (true, Wake::Drive(drive)) = (self.relays, wake) {
            self.relay(drive.index());
        }
        Ok(wake)
    }

    #[inline]
    fn completion(&mut self, drive: Replica) -> Option<Completed> {
        self.drives.completion(drive)
    }

    #[inline]
    fn has_room(&self, drive: Replica) -> bool {
        self.drives.has_room(drive)
    }

    #[inline]
    fn submit(&mut self, drive: Replica, slot: u32, request: &Request) -> Result<(), Error> {
        self.drives.submit(drive, slot, request)?;
        if self.relays {
            self.relay(drive.index());
        }
        Ok(())
    }

    #[inline]
    fn expect(&mut self, drive: Replica, offset: u64) {
        self.drives.expect(drive, offset);
    }

    #[inline]
    fn was_delayed(&self) -> bool {
        self.drives.was_delayed()
    }

    #[inline]
    fn host_events(&mut self, take: impl FnMut(Replica, HostEvent)) {
        self.drives.host_events(take);
    }
}

struct SourceLoad {
    source: Source,
    error: Option<Error>,
}

impl Load for SourceLoad {
    fn next(&self) -> Nanos {
        self.source.next()
    }

    fn take(&mut self) -> Option<UserIo> {
        match self.source.take() {
            Ok((io, _)) => Some(UserIo { op: io.op, offset: io.offset, length: io.length }),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn coming(&self, announce: &mut dyn FnMut(&UserIo)) {
        for coming in self.source.coming() {
            announce(&UserIo { op: coming.op, offset: coming.offset, length: coming.length });
        }
    }

    fn completed(&mut self, now: Nanos) {
        self.source.completed(now);
    }
}
