//! An HTTP server for two pages, for Prometheus.
//!
//! One thread serves all connections without blocking on any: it polls a limited number of
//! connections and advances those that are ready. Each connection has one time limit for
//! request and answer. A connection beyond the limit replaces the oldest silent one. Of a
//! request only the head is kept.

mod exchange;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::exchange::Exchange;
use crate::error::Error;

/// The most connections at once.
const MOST: usize = 32;
/// Time limit of a connection, from accept to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Older metrics are not served: the agent is stuck.
const STALE: Duration = Duration::from_secs(10);
/// Pause after an error that concerns no particular connection, such as a lack of file
/// descriptors: it may be temporary.
const PAUSE: Duration = Duration::from_millis(100);

/// The page to serve, replaced as a whole; initially there is none.
#[derive(Clone, Debug, Default)]
pub struct Page(Arc<Mutex<Option<Published>>>);

#[derive(Debug)]
struct Published {
    at: Instant,
    text: Arc<str>,
}

impl Page {
    /// Replaces the page.
    pub fn publish(&self, text: String) {
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *page = Some(Published { at: Instant::now(), text: text.into() });
    }

    fn fresh(&self) -> Option<Arc<str>> {
        let page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = page.as_ref().filter(|published| published.at.elapsed() < STALE);
        fresh.map(|published| Arc::clone(&published.text))
    }
}

/// Binds these addresses; with port 0 the kernel chooses a port for each. An address of a
/// family that this machine lacks (`localhost`, without IPv6) is left out if there are others.
///
/// # Errors
/// An address is in use, or is not this machine's.
pub fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, Error> {
    let (mut listeners, mut lacking) = (Vec::new(), None);
    for &address in addresses {
        match listen(address) {
            Ok(listener) => listeners.push(listener),
            Err(e) if is_lacking(&e) => lacking = Some(Error::Listen { address, source: e }),
            Err(source) => return Err(Error::Listen { address, source }),
        }
    }
    match lacking {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn is_lacking(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::ADDRNOTAVAIL | rustix::io::Errno::AFNOSUPPORT))
}

/// Serves the page from now on, until the process ends.
pub fn serve(listeners: Vec<TcpListener>, page: &Page) {
    let page = page.clone();
    thread::spawn(move || {
        let mut exchanges = Vec::new();
        loop {
            turn(&listeners, &mut exchanges, &page).unwrap_or_else(|_| thread::sleep(PAUSE));
        }
    });
}

/// Waits until a listener or connection is ready, and advances those that are.
fn turn(listeners: &[TcpListener], exchanges: &mut Vec<Exchange>, page: &Page) -> io::Result<()> {
    let ready = wait(listeners, exchanges)?;
    let (comers, ready) = ready.split_at(listeners.len());
    let mut ready = ready.iter();
    let now = Instant::now();
    exchanges.retain_mut(|exchange| {
        let may_go_on = ready.next() == Some(&true);
        now < exchange.until && (!may_go_on || exchange.go_on(|line| respond(line, page)))
    });
    for (listener, _) in listeners.iter().zip(comers).filter(|(_, ready)| **ready) {
        admit(listener, exchanges, page)?;
    }
    Ok(())
}

/// Which are ready: the listeners, and each of the connections.
fn wait(listeners: &[TcpListener], exchanges: &[Exchange]) -> io::Result<Vec<bool>> {
    let listening = listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN));
    let mut waiting: Vec<PollFd<'_>> = listening.collect();
    waiting.extend(exchanges.iter().map(Exchange::awaited));
    let first = exchanges.iter().map(|exchange| exchange.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec::try_from(left).expect("seconds"));
    match poll(&mut waiting, left.as_ref()) {
        Ok(_) => Ok(waiting.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; waiting.len()]),
        Err(e) => Err(e.into()),
    }
}

/// Accepts pending connections, at most as many as are held at once: connections being
/// answered must not starve, however many arrive.
fn admit(listener: &TcpListener, exchanges: &mut Vec<Exchange>, page: &Page) -> io::Result<()> {
    for _ in 0..MOST {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // The client has disconnected already: not an error of the server.
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        make_room(exchanges, page);
        exchanges.push(Exchange::new(stream, Instant::now() + PATIENCE)?);
    }
    Ok(())
}

/// Makes room for one more by closing the oldest silent connection. Unread input counts as not
/// silent.
fn make_room(exchanges: &mut Vec<Exchange>, page: &Page) {
    if exchanges.len() < MOST {
        return;
    }
    exchanges.retain_mut(|one| !one.is_silent() || one.go_on(|line| respond(line, page)));
    if exchanges.len() >= MOST {
        // In order of arrival.
        let silent = exchanges.iter().position(Exchange::is_silent);
        exchanges.remove(silent.unwrap_or(0));
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// HEAD is answered like GET, without the content.
const METHODS: &str = "GET, HEAD";

/// Status, type and content of an answer.
type Answer = (&'static str, &'static str, Arc<str>);

const BAD: &str = "400 Bad Request";
const NOT_ALLOWED: &str = "405 Method Not Allowed";

/// The answer to a request's first line; `None` if it was not text, or the head too large.
fn respond(line: Option<&str>, page: &Page) -> Answer {
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else {
        return (BAD, PLAIN, "not an HTTP request\n".into());
    };
    if !version.starts_with("HTTP/1.") {
        return (BAD, PLAIN, "only HTTP/1 is served\n".into());
    }
    if !METHODS.split(", ").any(|served| served == method) {
        return (NOT_ALLOWED, PLAIN, "only GET and HEAD are served\n".into());
    }
    let path = target.split('?').next().unwrap_or_default();
    match (path, page.fresh()) {
        ("/metrics", Some(text)) => ("200 OK", METRICS, text),
        ("/healthz", Some(_)) => ("200 OK", PLAIN, "ok\n".into()),
        ("/metrics" | "/healthz", None) => {
            ("503 Service Unavailable", PLAIN, "the agent is stuck, or still starting\n".into())
        }
        _ => ("404 Not Found", PLAIN, "there are /metrics and /healthz\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    /// Serves the page at a free port. Returns the address.
    fn at_some_port(page: &Page) -> SocketAddr {
        let listeners = bind(&[SocketAddr::from(([127, 0, 0, 1], 0))]).unwrap();
        let address = listeners[0].local_addr().unwrap();
        serve(listeners, page);
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        // A refused request may end the connection before all of it is read.
        _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn serves_two_pages_and_nothing_else() {
        let page = Page::default();
        let address = at_some_port(&page);
        let get = |path: &str| ask(address, format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes());
        assert!(get("/healthz").starts_with("HTTP/1.1 503 "));
        page.publish("x 1\n".to_owned());
        assert_eq!(
            get("/metrics?a=b"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: 4\r\nConnection: close\r\n\r\nx 1\n"
        );
        assert!(get("/healthz").ends_with("\r\n\r\nok\n"));
        assert!(get("/").starts_with("HTTP/1.1 404 "));
        let post = ask(address, b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
        assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
        assert!(post.contains("\r\nAllow: GET, HEAD\r\n"), "{post}");
        for bad in [&b"hello\r\n\r\n"[..], b"GET /metrics SPDY/3\r\n\r\n", b"\xff\xff\r\n\r\n"] {
            assert!(ask(address, bad).starts_with("HTTP/1.1 400 "));
        }
        let error = bind(&[address]).unwrap_err();
        assert!(
            matches!(error, Error::Listen { address: taken, .. } if taken == address),
            "{error}"
        );
    }

    #[test]
    fn head_is_answered_as_get_without_the_content() {
        let page = Page::default();
        let address = at_some_port(&page);
        for path in ["/metrics", "/healthz", "/nothing"] {
            for published in [false, true] {
                if published {
                    page.publish("x 1\n".to_owned());
                }
                let [get, head] = ["GET", "HEAD"].map(|method| {
                    ask(address, format!("{method} {path} HTTP/1.1\r\n\r\n").as_bytes())
                });
                let (get, content) = get.split_once("\r\n\r\n").unwrap();
                assert_eq!(head, format!("{get}\r\n\r\n"));
                assert!(get.contains(&format!("Content-Length: {}\r\n", content.len())), "{get}");
                assert!(!content.is_empty());
            }
        }
    }

    #[test]
    fn several_addresses_are_served_and_a_lacking_family_is_left_out() {
        let page = Page::default();
        page.publish("x 1\n".to_owned());
        // 192.0.2.0/24 is for documentation: no machine has it.
        let (here, lacking) = (([127, 0, 0, 1], 0), ([192, 0, 2, 1], 0));
        let addresses = [here, lacking, ([127, 0, 0, 2], 0)].map(SocketAddr::from);
        let listeners = bind(&addresses).unwrap();
        let served: Vec<_> = listeners.iter().map(|one| one.local_addr().unwrap()).collect();
        assert_eq!(served.len(), 2);
        serve(listeners, &page);
        for address in served {
            assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("x 1\n"));
        }
        let error = bind(&[SocketAddr::from(lacking)]).unwrap_err();
        let expected = SocketAddr::from(lacking);
        assert!(matches!(error, Error::Listen { address, .. } if address == expected), "{error}");
    }

    /// A request body that is not read must not cost the client the answer (a reset would).
    #[test]
    fn client_still_sending_gets_its_answer() {
        let page = Page::default();
        let address = at_some_port(&page);
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"POST /metrics HTTP/1.1\r\nContent-Length: 50000\r\n\r\n").unwrap();
            stream.write_all(&[b'x'; 50_000]).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        }
    }

    #[test]
    fn thousand_connections_do_not_block_requests() {
        let page = Page::default();
        page.publish("x 1\n".to_owned());
        let address = at_some_port(&page);
        let begun = Instant::now();
        let mut held = Vec::new();
        for i in 0..1000 {
            // Earlier ones are cut off: a connection may fail, but not the server.
            held.extend(TcpStream::connect(address));
            if i % 100 == 99 {
                let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
                assert!(answer.ends_with("x 1\n"), "after {i}: {answer}");
            }
            // A test may have only a limited number of open files.
            if held.len() == 400 {
                held.drain(..100);
            }
        }
        assert!(begun.elapsed() < 30 * PATIENCE, "{:?}", begun.elapsed());
    }

    /// Cutting it off for later connections while its request is unread would make answers
    /// unreliable.
    #[test]
    fn unread_request_is_answered_before_connections_are_cut_off() {
        let page = Page::default();
        page.publish("x 1\n".to_owned());
        let listeners = bind(&[SocketAddr::from(([127, 0, 0, 1], 0))]).unwrap();
        let address = listeners[0].local_addr().unwrap();
        // All arrive before the server polls for the first time.
        let mut first = TcpStream::connect(address).unwrap();
        first.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let _silent: Vec<TcpStream> =
            (0..2 * MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        serve(listeners, &page);
        let mut answer = String::new();
        _ = first.read_to_string(&mut answer);
        assert!(answer.ends_with("x 1\n"), "{answer}");
    }

    #[test]
    fn silent_and_partial_requests_do_not_block_others() {
        let page = Page::default();
        page.publish("x 1\n".to_owned());
        let address = at_some_port(&page);
        let get = |why: &str| {
            let begun = Instant::now();
            let answer = ask(address, b"GET /metrics HTTP/1.0\r\n\r\n");
            assert!(answer.ends_with("x 1\n"), "{why}: {answer}");
            // Waiting for the others' time limits would take several of them.
            assert!(begun.elapsed() < PATIENCE, "{why}: {:?}", begun.elapsed());
        };
        // More silent or incomplete connections than fit at once.
        let connect = |_| TcpStream::connect(address).unwrap();
        let silent: Vec<TcpStream> = (0..50).map(connect).collect();
        get("50 are silent");
        let halves: Vec<TcpStream> = (0..50).map(connect).collect();
        halves.iter().for_each(|mut half| half.write_all(b"GET /met").unwrap());
        get("50 have sent half a request");
        drop((silent, halves));
        let endless =
            [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 2 * exchange::LARGEST]].concat();
        assert!(!ask(address, &endless).contains("200 OK"));
    }

    #[test]
    fn client_that_does_not_read_does_not_block_others() {
        let page = Page::default();
        // More than the kernel buffers for a client that does not read.
        page.publish("x".repeat(32 << 20));
        let address = at_some_port(&page);
        let mut idle: Vec<TcpStream> =
            (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
        for stream in &mut idle {
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        }
        assert!(ask(address, b"GET /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nok\n"));
        std::thread::sleep(PATIENCE + PATIENCE / 2);
        // Past its time limit: the answer is cut off.
        let mut got = Vec::new();
        _ = idle[0].read_to_end(&mut got);
        assert!(got.starts_with(b"HTTP/1.1 200 OK") && got.len() < 32 << 20, "{}", got.len());
    }

    proptest::proptest! {
        #[test]
        fn any_first_line_has_an_answer(line in "\\PC*", path in "[/a-z?]*") {
            let page = Page::default();
            page.publish("x 1\n".to_owned());
            for line in [line, format!("GET {path} HTTP/1.1")] {
                let (status, _, body) = respond(Some(&line), &page);
                proptest::prop_assert_eq!(status == "200 OK", &*body == "x 1\n" || &*body == "ok\n");
            }
        }
    }
}
