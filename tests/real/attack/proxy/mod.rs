//! A connection that misbehaves in every way between the dashboard and its server. The dashboard never ends, answers
//! every key, says that it is not connected, comes back by itself, and does not storm the server meanwhile.

mod line;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use self::line::{Fault, Line};
use super::dashboard::Dashboard;
use super::{Bounds, Target};

const FLEET: &str = "synthetic:clusters=2,machines=8";
const CLUSTER: &str = "fleet-0000";
/// What the suite has time for: coming back takes as long as the dashboard waits between attempts.
const SHORT: [Fault; 2] = [Fault::Cut, Fault::Garbage];
const ALL: [Fault; 8] = [
    Fault::Delay,
    Fault::Cut,
    Fault::Stall,
    Fault::HalfOpen,
    Fault::Garbage,
    Fault::Reset,
    Fault::Slow,
    Fault::Frozen,
];
/// Connections that a dashboard opens at once when all is well, generously.
const FEEDS: u64 = 16;
/// A feed asks again at 1 s and twice as late each time, up to 30 s; this is a bound for any outage.
const ATTEMPTS_MAX: u64 = 10;
/// Longest outage that goes on after the dashboard has said so.
const OUTAGE_MAX_S: u64 = 20;

struct Site {
    target: Target,
    line: Line,
    dashboard: Dashboard,
}

/// Whether the header says that what is shown is current.
fn is_live(dashboard: &Dashboard) -> bool {
    says_live(&dashboard.header())
}

fn says_live(header: &str) -> bool {
    header.trim_end().ends_with("live")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl Site {
    async fn open() -> Self {
        let target = Target::started(&["--no-engine", "--sample", FLEET]);
        let line = Line::to(&target.server().address).await;
        let text = std::fs::read_to_string(target.server().kubeconfig()).expect("a kubeconfig");
        let kubeconfig: PathBuf = target.folder().join("through-the-line");
        std::fs::write(&kubeconfig, text.replace(&target.server().address, &line.address)).expect("written");
        let mut dashboard = Dashboard::open(&kubeconfig, target.folder(), &[]);
        dashboard.pty.shows(CLUSTER);
        dashboard.pty.until("a live fleet", |pty| says_live(first_line(&pty.text())));
        Self { target, line, dashboard }
    }

    fn server_is(&self, signal: &str) {
        let id = self.target.server().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    }

    /// One outage from its beginning until all is well again.
    async fn endure(&mut self, fault: Fault, longer: Duration) {
        let (opened, began) = (self.line.opened(), Instant::now());
        match fault {
            Fault::Frozen => self.server_is("-STOP"),
            fault => self.line.set(fault),
        }
        if fault.is_an_outage() {
            let what = format!("the dashboard to notice {fault:?}");
            self.dashboard.pty.until(&what, |pty| !says_live(first_line(&pty.text())));
        }
        let noticed = began.elapsed();
        let end = Instant::now() + longer;
        loop {
            self.dashboard.answers();
            assert!(self.dashboard.pty.is_running(), "{fault:?} ended the dashboard");
            self.dashboard.pty.shows(CLUSTER);
            if Instant::now() >= end && (!fault.is_refused() || self.line.opened() > opened) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let attempts = self.line.opened() - opened;
        assert!(attempts <= FEEDS * ATTEMPTS_MAX, "{attempts} connections during {fault:?}");
        match fault {
            Fault::Frozen => self.server_is("-CONT"),
            _ => self.line.set(Fault::None),
        }
        let lifted = Instant::now();
        self.dashboard.pty.until("a live fleet again", |pty| says_live(first_line(&pty.text())));
        assert!(is_live(&self.dashboard));
        let outage = lifted.duration_since(began);
        println!(
            "{fault:?}: noticed after {noticed:.1?}, {attempts} connections in {outage:.1?}, live {:.1?} after its end",
            lifted.elapsed()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dashboard_endures_every_kind_of_connection() {
    let mut bounds = Bounds::of(1);
    let mut place = Site::open().await;
    while bounds.goes_on() {
        let faults: &[Fault] = if bounds.is_long() { &ALL } else { &SHORT };
        for &fault in faults {
            let longer = if bounds.is_long() { bounds.rng.below(OUTAGE_MAX_S) } else { 0 };
            place.endure(fault, Duration::from_secs(longer)).await;
        }
    }
    place.target.assert_calm();
    place.dashboard.quit();
}
