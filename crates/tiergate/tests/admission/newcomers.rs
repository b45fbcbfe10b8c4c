//! Under overload newcomers are refused, and whoever was answered before goes on.

use crate::support;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};

/// Clients that each send a request after the other, on one connection until it is refused.
const CLIENTS: u32 = 60;
/// Until what is served is known, and for how long it counts then.
const WARM_UP: Duration = Duration::from_millis(1500);
const COUNTED: Duration = Duration::from_secs(3);

/// Requests asked and refused.
#[derive(Default)]
struct Count {
    asked: AtomicU32,
    refused: AtomicU32,
}

impl Count {
    fn share_refused(&self) -> f64 {
        let asked = self.asked.load(Ordering::Relaxed);
        assert!(asked > 100, "{asked} asked");
        f64::from(self.refused.load(Ordering::Relaxed)) / f64::from(asked)
    }
}

#[test]
fn whoever_was_answered_goes_on_where_newcomers_are_refused() {
    let origin = Origin::answering(|_| {
        thread::sleep(Duration::from_millis(20));
        ok("ok")
    });
    // A hundred a second, of which 40 wait at most.
    let gateway = Gateway::start(&Policy {
        servers: vec![origin.server()],
        origin: "slots = 2".into(),
        tables: "[[class]]\nname = \"all\"\ndeadline = \"400ms\"\nfair = false\n".into(),
        ..Policy::default()
    });
    let (newcomers, others) = (Count::default(), Count::default());
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while begun.elapsed() < WARM_UP + COUNTED {
                    let mut client = gateway.client();
                    let mut count = &newcomers;
                    loop {
                        // Longer than a place stays free that nobody keeps.
                        thread::sleep(Duration::from_millis(20));
                        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
                        let counts = begun.elapsed() >= WARM_UP;
                        let status = client.answer().status;
                        count.asked.fetch_add(u32::from(counts), Ordering::Relaxed);
                        if status != 200 {
                            count.refused.fetch_add(u32::from(counts), Ordering::Relaxed);
                            break;
                        }
                        if begun.elapsed() >= WARM_UP + COUNTED {
                            break;
                        }
                        count = &others;
                    }
                }
            });
        }
    });
    let (newcomers, others) = (newcomers.share_refused(), others.share_refused());
    assert!(newcomers > 0.5, "{newcomers} of the newcomers were refused: no overload");
    assert!(others < newcomers / 5.0, "{others} of the others were refused, {newcomers} of them");
}
