//! The interface of a simulated device.

use trimtab_device::{Disk, Drive, Error, Served, Ssd, SsdStats};
use trimtab_io::{HostEvent, Nanos, Request, RequestId};

use crate::scheduled::Dispatch;

/// Serves requests in virtual time: a drive, or several drives as one.
///
/// It is a state machine. Time advances only when the driver says so, and the behaviour
/// depends only on the inputs. The driver is compiled for each kind of server, so there are no
/// indirect calls.
pub trait Server {
    /// Its capacity, bytes.
    fn capacity(&self) -> u64;

    /// Its time.
    fn now(&self) -> Nanos;

    /// Requests that it has not completed.
    fn in_flight(&self) -> usize;

    /// Takes a request at time `now`; all earlier events are processed first.
    ///
    /// # Errors
    /// The request reaches beyond the end, or `now` is in the past.
    fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error>;

    /// Announces a request at this offset. A hint that may make the simulation faster, and
    /// changes nothing else.
    fn expect(&mut self, offset: u64) {
        _ = offset;
    }

    /// The time of the next event, if nothing is submitted before.
    fn next_event(&self) -> Option<Nanos>;

    /// Advances time, up to and including `until`.
    fn advance(&mut self, until: Nanos);

    /// Advances time until a request completes, or another event occurs, at most up to and
    /// including `until`; returns the time reached.
    fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        let at = self.next_event().map_or(until, |at| at.min(until));
        self.advance(at);
        at
    }

    /// Passes on the completions since the last call, in order of time.
    fn drain(&mut self, take: impl FnMut(&Served));

    /// Takes back a request that waits in the host: then it never completes. False if the device
    /// has it, or knows no such request.
    fn cancel(&mut self, id: RequestId) -> bool {
        _ = id;
        false
    }

    /// Passes on the requests that the device has got from its scheduler since the last call, in
    /// order of time: none before [`tell_dispatches`](Self::tell_dispatches). A request that has
    /// completed since is among them, so pass them on before completions.
    fn take_dispatches(&mut self, take: impl FnMut(Dispatch)) {
        _ = take;
    }

    /// Notes dispatches from now on, if it has a scheduler; returns whether it has.
    fn tell_dispatches(&mut self) -> bool {
        false
    }

    /// Whether it has host events to tell.
    fn tells_events(&self) -> bool {
        false
    }

    /// A read was refused before it came here. A host may bring its data into memory.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    fn refused(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        _ = (now, request);
        Ok(())
    }

    /// Calls `take` for each host event since the last call, if it tells them.
    fn take_host_events(&mut self, take: impl FnMut(HostEvent)) {
        _ = take;
    }

    /// Internal counters, for reports. Counters that a server does not have stay zero.
    fn study(&self) -> SsdStats {
        SsdStats::default()
    }
}

/// The models of trimtab-device have these methods as their own.
macro_rules! serves {
    ($model:ty, $($own:tt)*) => {
        impl Server for $model {
            fn capacity(&self) -> u64 {
                self.capacity()
            }

            #[inline]
            fn now(&self) -> Nanos {
                self.now()
            }

            #[inline]
            fn in_flight(&self) -> usize {
                self.in_flight()
            }

            #[inline]
            fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
                self.submit(now, request)
            }

            #[inline]
            fn next_event(&self) -> Option<Nanos> {
                self.next_event()
            }

            #[inline]
            fn advance(&mut self, until: Nanos) {
                self.advance(until);
            }

            #[inline]
            fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
                self.advance_to_answer(until)
            }

            #[inline]
            fn drain(&mut self, take: impl FnMut(&Served)) {
                self.drain(take);
            }

            $($own)*
        }
    };
}

serves! {
    Ssd,
    #[inline]
    fn expect(&mut self, offset: u64) {
        self.prefetch(offset);
    }

    fn tells_events(&self) -> bool {
        self.is_open_channel()
    }

    #[inline]
    fn take_host_events(&mut self, mut take: impl FnMut(HostEvent)) {
        self.take_flash_events(|event| take(event.into()));
    }

    fn study(&self) -> SsdStats {
        self.stats()
    }
}

// A disk has nothing to prefetch, and no counters of flash.
serves!(Disk,);

serves! {
    Drive,
    #[inline]
    fn expect(&mut self, offset: u64) {
        self.prefetch(offset);
    }

    fn tells_events(&self) -> bool {
        match self {
            Self::Flash(ssd) => ssd.is_open_channel(),
            Self::Disk(_) => false,
        }
    }

    #[inline]
    fn take_host_events(&mut self, mut take: impl FnMut(HostEvent)) {
        if let Self::Flash(ssd) = self {
            ssd.take_flash_events(|event| take(event.into()));
        }
    }

    fn study(&self) -> SsdStats {
        match self {
            Self::Flash(ssd) => ssd.stats(),
            Self::Disk(_) => SsdStats::default(),
        }
    }
}

/// Checks a request before a server above `server` takes it.
///
/// # Errors
/// As [`Server::submit`].
pub(crate) fn check(server: &impl Server, now: Nanos, request: &Request) -> Result<(), Error> {
    if now < server.now() {
        return Err(Error::TimeRunsBack { now, before: server.now() });
    }
    let (capacity, &Request { offset, length, .. }) = (server.capacity(), request);
    if offset.checked_add(length).is_none_or(|end| end > capacity) {
        return Err(Error::BeyondEnd { offset, length, capacity });
    }
    Ok(())
}

/// An enum whose variants each hold a server is the server that it holds.
macro_rules! one_of {
    ($kind:ident $(<$inner:ident>)?, [$($variant:ident),+]) => {
        impl $(<$inner: $crate::server::Server>)? $crate::server::Server for $kind $(<$inner>)? {
            one_of!(@all [$($variant),+]
                fn capacity(&self) -> u64;
                fn now(&self) -> ::trimtab_io::Nanos;
                fn in_flight(&self) -> usize;
                fn submit(&mut self, now: ::trimtab_io::Nanos, request: &::trimtab_io::Request) -> Result<(), ::trimtab_device::Error>;
                fn expect(&mut self, offset: u64);
                fn next_event(&self) -> Option<::trimtab_io::Nanos>;
                fn advance(&mut self, until: ::trimtab_io::Nanos);
                fn advance_to_answer(&mut self, until: ::trimtab_io::Nanos) -> ::trimtab_io::Nanos;
                fn drain(&mut self, take: impl FnMut(&::trimtab_device::Served));
                fn cancel(&mut self, id: ::trimtab_io::RequestId) -> bool;
                fn take_dispatches(&mut self, take: impl FnMut($crate::scheduled::Dispatch));
                fn tell_dispatches(&mut self) -> bool;
                fn tells_events(&self) -> bool;
                fn take_host_events(&mut self, take: impl FnMut(::trimtab_io::HostEvent));
                fn refused(&mut self, now: ::trimtab_io::Nanos, request: &::trimtab_io::Request) -> Result<(), ::trimtab_device::Error>;
                fn study(&self) -> ::trimtab_device::SsdStats;
            );
        }
    };
    (@all $variants:tt $(fn $name:ident $arguments:tt $(-> $result:ty)?;)+) => {
        $(one_of!(@method $variants fn $name $arguments $(-> $result)?);)+
    };
    (@method $variants:tt
        fn $name:ident(&$self:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?) => {
        #[inline]
        fn $name(&$self $(, $argument: $type)*) $(-> $result)? {
            one_of!(@call $self $variants $name ($($argument),*))
        }
    };
    (@method $variants:tt
        fn $name:ident(&mut $self:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?) => {
        #[inline]
        fn $name(&mut $self $(, $argument: $type)*) $(-> $result)? {
            one_of!(@call $self $variants $name ($($argument),*))
        }
    };
    (@call $self:ident [$($variant:ident),+] $name:ident $arguments:tt) => {
        match $self {
            $(Self::$variant(server) => server.$name $arguments,)+
        }
    };
}
pub(crate) use one_of;
