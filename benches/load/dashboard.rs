//! The dashboard: first frame, a full list, keys, and what it costs when nothing happens.

use crate::Sizes;
use crate::process::{Server, Terminal, cpu_ticks, resident_mb};
use crate::table::{Table, median};

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
    let pid = terminal.child.process_id().expect("a process");
    table.add(format!("{name}: dashboard resident"), format!("{} MB", resident_mb(pid)));
    let keys: Vec<f64> = (0..20).map(|i| terminal.key_ms(if i % 2 == 0 { b"j" } else { b"k" })).collect();
    table.add(format!("{name}: key to bytes"), format!("{:.1} ms", median(keys)));
    terminal.settled_ms();
    let (bytes, ticks) = (terminal.bytes(), cpu_ticks(pid));
    std::thread::sleep(sizes.idle);
    let seconds = sizes.idle.as_secs_f64();
    let used = (cpu_ticks(pid) - ticks) as f64 / seconds;
    table.add(format!("{name}: idle CPU"), format!("{used:.2} % of a core"));
    table.add(format!("{name}: idle bytes in {seconds:.0} s"), (terminal.bytes() - bytes).to_string());
    table.add(format!("{name}: server resident"), format!("{} MB", server.resident_mb()));
}

pub fn measure_demo(sizes: &Sizes, table: &mut Table) {
    let home = tempfile::tempdir().expect("a folder");
    let first =
        (0..sizes.repeats).map(|_| Terminal::start(&["demo"], home.path()).first_frame_ms()).collect();
    table.add("capstan demo: first frame", format!("{:.0} ms", median(first)));
}
