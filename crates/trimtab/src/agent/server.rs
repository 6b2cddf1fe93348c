//! Two pages over HTTP: what Prometheus asks for, and nothing else.
//!
//! One thread answers all, and waits for none: it looks after a limited number of
//! connections, and goes to whichever can go on. Each has one time limit from its beginning
//! to the end of the answer. If one more comes than there is room for, the oldest that has
//! said nothing goes. Nothing of a request is kept but its head.

mod exchange;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::exchange::Exchange;

/// Connections held at once.
const MOST: usize = 32;
/// From the connection to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Metrics older than that are not served: the agent is stuck.
const STALE: Duration = Duration::from_secs(10);
/// After an error that is nobody's in particular (no file descriptors left, say): it may
/// pass.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, replaced as a whole each time; at the beginning there is nothing.
#[derive(Clone, Default)]
pub(super) struct Page(Arc<Mutex<Option<Published>>>);

struct Published {
    at: Instant,
    text: Arc<str>,
}

impl Page {
    pub(super) fn publish(&self, text: String) {
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *page = Some(Published { at: Instant::now(), text: text.into() });
    }

    fn fresh(&self) -> Option<Arc<str>> {
        let page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = page.as_ref().filter(|published| published.at.elapsed() < STALE);
        fresh.map(|published| Arc::clone(&published.text))
    }
}

/// Serves the page at an address from now on, until the process ends. The address it
/// gives has the port that the kernel chose, should that have been 0.
pub(super) fn serve(address: SocketAddr, page: &Page) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let page = page.clone();
    thread::spawn(move || {
        let mut exchanges = Vec::new();
        loop {
            turn(&listener, &mut exchanges, &page).unwrap_or_else(|_| thread::sleep(PAUSE));
        }
    });
    Ok(address)
}

/// Waits until anything can go on, and lets it.
fn turn(listener: &TcpListener, exchanges: &mut Vec<Exchange>, page: &Page) -> io::Result<()> {
    let ready = wait(listener, exchanges)?;
    let mut ready = ready.into_iter();
    let anyone = ready.next().unwrap_or(false);
    let now = Instant::now();
    exchanges.retain_mut(|exchange| {
        let may_go_on = ready.next().unwrap_or(false);
        now < exchange.until && (!may_go_on || exchange.go_on(|line| respond(line, page)))
    });
    if anyone { admit(listener, exchanges) } else { Ok(()) }
}

/// Which can go on: the listener, and each of the connections. None, if it is time to end
/// one.
fn wait(listener: &TcpListener, exchanges: &[Exchange]) -> io::Result<Vec<bool>> {
    let mut waiting = vec![PollFd::new(listener, PollFlags::IN)];
    waiting.extend(exchanges.iter().map(Exchange::awaited));
    let first = exchanges.iter().map(|exchange| exchange.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec::try_from(left).expect("seconds"));
    match poll(&mut waiting, left.as_ref()) {
        Ok(_) => Ok(waiting.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
        Err(e) => Err(e.into()),
    }
}

/// Takes in all who have come.
fn admit(listener: &TcpListener, exchanges: &mut Vec<Exchange>) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // A client that has gone away is none of our business.
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        if exchanges.len() == MOST {
            // They stand in order of their beginnings.
            let silent = exchanges.iter().position(Exchange::is_silent);
            exchanges.remove(silent.unwrap_or(0));
        }
        exchanges.push(Exchange::new(stream, Instant::now() + PATIENCE)?);
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Status, type and content of an answer.
type Answer = (&'static str, &'static str, Arc<str>);

/// The answer to a request's first line; none if that was no text, or the head too large.
fn respond(line: Option<&str>, page: &Page) -> Answer {
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else {
        return ("400 Bad Request", PLAIN, "not an HTTP request\n".into());
    };
    if !version.starts_with("HTTP/1.") {
        return ("400 Bad Request", PLAIN, "only HTTP/1 is served\n".into());
    }
    if method != "GET" {
        return ("405 Method Not Allowed", PLAIN, "only GET is served\n".into());
    }
    let path = target.split('?').next().unwrap_or_default();
    match (path, page.fresh()) {
        ("/metrics", Some(text)) => ("200 OK", METRICS, text),
        ("/healthz", Some(_)) => ("200 OK", PLAIN, "ok\n".into()),
        ("/metrics" | "/healthz", None) => {
            ("503 Service Unavailable", PLAIN, "the agent is stuck, or just beginning\n".into())
        }
        _ => ("404 Not Found", PLAIN, "there are /metrics and /healthz\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

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
        let address = serve(SocketAddr::from(([127, 0, 0, 1], 0)), &page).unwrap();
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
        for bad in [&b"hello\r\n\r\n"[..], b"GET /metrics SPDY/3\r\n\r\n", b"\xff\xff\r\n\r\n"] {
            assert!(ask(address, bad).starts_with("HTTP/1.1 400 "));
        }
        assert!(serve(address, &page).is_err(), "the port is in use");
    }

    #[test]
    fn nobody_can_keep_others_from_it() {
        let page = Page::default();
        page.publish("x 1\n".to_owned());
        let address = serve(SocketAddr::from(([127, 0, 0, 1], 0)), &page).unwrap();
        let get = |why: &str| {
            let begun = Instant::now();
            let answer = ask(address, b"GET /metrics HTTP/1.0\r\n\r\n");
            assert!(answer.ends_with("x 1\n"), "{why}: {answer}");
            // Had it had to wait for the others' time limits, it would be several of them.
            assert!(begun.elapsed() < PATIENCE, "{why}: {:?}", begun.elapsed());
        };
        // More who say nothing, or half of it, than there is room for.
        let connect = |_| TcpStream::connect(address).unwrap();
        let silent: Vec<TcpStream> = (0..50).map(connect).collect();
        get("50 are silent");
        let halves: Vec<TcpStream> = (0..50).map(connect).collect();
        halves.iter().for_each(|mut half| half.write_all(b"GET /met").unwrap());
        get("50 have said half of it");
        drop((silent, halves));
        let endless =
            [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 2 * exchange::LARGEST]].concat();
        assert!(!ask(address, &endless).contains("200 OK"));
    }

    #[test]
    fn who_does_not_take_the_answer_keeps_nobody_from_it() {
        let page = Page::default();
        // More than the kernel holds for one who does not listen.
        page.publish("x".repeat(32 << 20));
        let address = serve(SocketAddr::from(([127, 0, 0, 1], 0)), &page).unwrap();
        let mut deaf: Vec<TcpStream> =
            (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
        for stream in &mut deaf {
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        }
        assert!(ask(address, b"GET /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nok\n"));
        std::thread::sleep(PATIENCE + PATIENCE / 2);
        // Its time is over: what it gets is not all.
        let mut got = Vec::new();
        _ = deaf[0].read_to_end(&mut got);
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
