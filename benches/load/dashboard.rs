//! The dashboard: first frame, a full list, keys, and what it costs when nothing happens.

use crate::Sizes;
use crate::process::{Server, Terminal, cpu_ticks, resident_mb};
use crate::table::{Table, median};

/// What is looked for: letters that many names have, and in the end few.
const WANTED: &[u8] = b"md0-42";

pub fn measure(machines: usize, sizes: &Sizes, table: &mut Table) {
    let clusters = (machines / 100).max(2);
    let sample = format!("synthetic:clusters={clusters},machines={machines}");
    let server = Server::start("memory", &["--sample", &sample]);
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = server.kubeconfig().display().to_string();
    let (mut first, mut full) = (Vec::new(), Vec::new());
    let mut terminal = None;
    for _ in 0..sizes.repeats {
        drop(terminal.take());
        let running = Terminal::start(&["--kubeconfig", &kubeconfig, "-A"], home.path());
        first.push(running.first_frame_ms());
        full.push(running.settled_ms());
        terminal = Some(running);
    }
    let mut terminal = terminal.expect("at least one run");
    let name = format!("{machines} Machines");
    table.add(format!("{name}: first frame"), format!("{:.0} ms", median(first)));
    table.add(format!("{name}: everything listed"), format!("{:.0} ms", median(full)));
    // So wide a terminal has the pane that follows the cursor.
    measure_screen(&format!("{name}, fleet and pane"), &mut terminal, b"jk", sizes, table);
    measure_find(&name, &mut terminal, sizes, table);
    terminal.key_ms(b"2");
    measure_screen(&format!("{name}, rollout"), &mut terminal, b"jk", sizes, table);
    table.add(format!("{name}: server resident"), format!("{} MB", server.resident_mb()));
}

/// What the open screen costs: when somebody is at the keys, and when nobody is.
fn measure_screen(name: &str, terminal: &mut Terminal, keys: &[u8; 2], sizes: &Sizes, table: &mut Table) {
    let pid = terminal.child.process_id().expect("a process");
    terminal.settled_ms();
    table.add(format!("{name}: resident"), format!("{} MB", resident_mb(pid)));
    let times: Vec<f64> = (0..20).map(|i| terminal.key_ms(&keys[i % 2..=i % 2])).collect();
    table.add(format!("{name}: key to bytes"), format!("{:.1} ms", median(times)));
    terminal.settled_ms();
    let (bytes, ticks) = (terminal.bytes(), cpu_ticks(pid));
    std::thread::sleep(sizes.idle);
    let seconds = sizes.idle.as_secs_f64();
    let used = (cpu_ticks(pid) - ticks) as f64 / seconds;
    table.add(format!("{name}: idle CPU"), format!("{used:.2} % of a core"));
    table.add(format!("{name}: idle bytes in {seconds:.0} s"), (terminal.bytes() - bytes).to_string());
}

/// Any object by some letters of its name: what each letter costs.
fn measure_find(name: &str, terminal: &mut Terminal, sizes: &Sizes, table: &mut Table) {
    let mut letters: Vec<Vec<f64>> = vec![Vec::new(); WANTED.len()];
    for _ in 0..sizes.repeats {
        terminal.key_ms(b"\x10");
        for (times, letter) in letters.iter_mut().zip(WANTED.chunks(1)) {
            times.push(terminal.key_ms(letter));
        }
        terminal.key_ms(b"\x1b");
        terminal.settled_ms();
    }
    let times: Vec<String> = letters.into_iter().map(|times| format!("{:.1}", median(times))).collect();
    table.add(format!("{name}: find, letter by letter"), format!("{} ms", times.join(", ")));
}

pub fn measure_demo(sizes: &Sizes, table: &mut Table) {
    let home = tempfile::tempdir().expect("a folder");
    let first =
        (0..sizes.repeats).map(|_| Terminal::start(&["demo"], home.path()).first_frame_ms()).collect();
    table.add("capstan demo: first frame", format!("{:.0} ms", median(first)));
}
