//! What a row does: firmware and policy.

use std::fmt;
use std::str::FromStr;

use trimtab_array::policy::{
    BusyTime, Flagged, Plain, Proactive, ReadPolicy, Tolerance, Tolerant, Trimtab, TrimtabOptions,
    Turns, Windows,
};
use trimtab_device::{
    FirmwareKind, HarmoniaOptions, PlIoOptions, Profile, TinyTailOptions, WindowOptions,
    WindowSchedule,
};

use super::buffer::BufferOptions;

/// A strategy of an array: what its drives' firmware does, and what its host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayStrategy {
    /// Ordinary drives, and reads that wait.
    Base,
    /// The same, with cleaning that takes no time.
    Ideal,
    /// Drives refuse flagged reads that cleaning delays; their strips are computed (IODA, PL_IO).
    Iod1,
    /// The same, and where too many refuse the least busy ones are waited for (PL_BRT).
    Iod2,
    /// Drives clean in turns; a drive is not read in its turn (PL_Win).
    Iod3,
    /// The host does so on ordinary drives, which clean when they want to (§6.3.3).
    Iod3Ordinary,
    /// Drives clean in turns, and refuse (PL_IO and PL_Win, §4.4).
    Ioda,
    /// The same with windows whose length the host finds (§7.2).
    IodaHost,
    /// `Ioda` with a write buffer in the host's NVRAM (IODA_NVM, §6.2.3).
    IodaNvm,
    /// Drives are read or written to, in turns, and the host stages what is written (Flash on Rails,
    /// §5 and §6.2.3).
    Rails,
    /// Full stripes are read, and the first strips that suffice are used (§6.2.1).
    Proactive,
    /// Drives clean at the same time (Harmonia, §6.2.2).
    Harmonia,
    /// Reads are served between the steps of a cleaning (§6.2.4).
    Preemptive,
    /// Reads suspend programs and erases too (§6.2.5).
    Suspension,
    /// Members that a model of their queues knows to be late are gone around (MittOS, §6.2.7).
    Mitt,
    /// Drives regenerate what their cleaning blocks (Tiny-Tail Flash, §6.2.6).
    TinyTail,
    /// Members that are late compared with the others of the read are gone around (ToleRAID,
    /// dissertation, §3.3.1).
    Reactive,
    /// One strip more than needed is read.
    Proactive1,
    /// Two strips more than needed are read.
    Proactive2,
    /// Reactive, and proactive while members are late again and again.
    Adaptive,
    /// Ordinary drives that are made to take turns, and gone around while they are busy.
    Trimtab,
}

impl ArrayStrategy {
    /// All, in the order of tables.
    pub const ALL: [Self; 21] = [
        Self::Base,
        Self::Ideal,
        Self::Iod1,
        Self::Iod2,
        Self::Iod3,
        Self::Iod3Ordinary,
        Self::Ioda,
        Self::IodaHost,
        Self::IodaNvm,
        Self::Rails,
        Self::Proactive,
        Self::Harmonia,
        Self::Preemptive,
        Self::Suspension,
        Self::Mitt,
        Self::TinyTail,
        Self::Reactive,
        Self::Proactive1,
        Self::Proactive2,
        Self::Adaptive,
        Self::Trimtab,
    ];

    /// Its name in scenarios and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Ideal => "ideal",
            Self::Iod1 => "iod1",
            Self::Iod2 => "iod2",
            Self::Iod3 => "iod3",
            Self::Iod3Ordinary => "iod3-ordinary",
            Self::Ioda => "ioda",
            Self::IodaHost => "ioda-host",
            Self::IodaNvm => "ioda-nvm",
            Self::Rails => "rails",
            Self::Proactive => "proactive",
            Self::Harmonia => "harmonia",
            Self::Preemptive => "preemptive",
            Self::Suspension => "suspension",
            Self::Mitt => "mitt",
            Self::TinyTail => "ttflash",
            Self::Reactive => "reactive",
            Self::Proactive1 => "proactive-1",
            Self::Proactive2 => "proactive-2",
            Self::Adaptive => "adaptive",
            Self::Trimtab => "trimtab",
        }
    }

    /// The firmware of its drives.
    pub(super) fn firmware(self, windows: &WindowOptions, buffer: &BufferOptions) -> FirmwareKind {
        match self {
            Self::Ideal => FirmwareKind::Ideal {},
            Self::Iod1 | Self::Iod2 => FirmwareKind::PlIo(PlIoOptions::default()),
            Self::Iod3 => FirmwareKind::Windows(*windows),
            Self::Ioda | Self::IodaHost | Self::IodaNvm => FirmwareKind::Ioda(*windows),
            Self::Rails => FirmwareKind::Windows(buffer.roles()),
            Self::Harmonia => FirmwareKind::Harmonia(HarmoniaOptions::default()),
            Self::TinyTail => FirmwareKind::TinyTail(TinyTailOptions::default()),
            _ => FirmwareKind::Standard {},
        }
    }

    /// Whether it has windows of a length that the scenario may choose.
    pub(super) const fn has_windows(self) -> bool {
        matches!(self, Self::Iod3 | Self::Iod3Ordinary | Self::Ioda | Self::IodaNvm)
    }

    /// Changes the drives' profile where it is the profile that has the strategy.
    pub(super) const fn change(self, profile: &mut Profile) {
        match self {
            Self::Preemptive => profile.gc.preemptive = true,
            Self::Suspension => (profile.gc.preemptive, profile.gc.suspend) = (true, true),
            _ => {}
        }
    }

    /// The policy of its host, for this many members. `windows` are those of the first drive, if it
    /// has any, and what follows them.
    pub(super) fn policy(
        self,
        members: usize,
        windows: Option<(WindowSchedule, Option<WindowSchedule>)>,
    ) -> Box<dyn ReadPolicy> {
        match (self, windows) {
            (Self::Iod1 | Self::Ioda | Self::IodaHost | Self::IodaNvm, _) => {
                Box::new(Flagged::new(BusyTime::Ignored))
            }
            (Self::Iod2, _) => Box::new(Flagged::new(BusyTime::Shortest)),
            (Self::Iod3 | Self::Iod3Ordinary | Self::Rails, Some((windows, next))) => {
                let policy = Windows::new(turns(windows));
                Box::new(next.map_or(policy, |next| policy.then(turns(next))))
            }
            (Self::Proactive, _) => Box::new(Proactive::FULL_STRIPE),
            (Self::Proactive1, _) => Box::new(Proactive::with_extra(1)),
            (Self::Proactive2, _) => Box::new(Proactive::with_extra(2)),
            (Self::Reactive, _) => Box::new(Tolerant::new(Tolerance::REACTIVE)),
            (Self::Adaptive, _) => Box::new(Tolerant::new(Tolerance::ADAPTIVE)),
            (Self::Trimtab, _) => Box::new(Trimtab::new(members, TrimtabOptions::default())),
            _ => Box::new(Plain),
        }
    }
}

/// The turns of all drives, by the windows of one.
pub(super) const fn turns(windows: WindowSchedule) -> Turns {
    let WindowSchedule { start, length, drives, .. } = windows;
    Turns { start, length, members: drives as u8 }
}

impl fmt::Display for ArrayStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no strategy of arrays with this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy of arrays called `{name}`; there are {known}")]
pub struct UnknownArrayStrategy {
    name: String,
    known: String,
}

impl FromStr for ArrayStrategy {
    type Err = UnknownArrayStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownArrayStrategy> {
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| UnknownArrayStrategy {
            name: name.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}
