//! k9s in a pseudo-terminal against the real binary. Skips, saying so, where k9s (or kubectl, which it
//! edits with) is not installed.

use std::process::{Command, Stdio};
use std::time::Duration;

use capi_types::machine_deployment::MachineDeployment;
use kube::api::Api;
use kube::runtime::wait::await_condition;
use portable_pty::CommandBuilder;

use crate::standalone::Standalone;
use crate::terminal::Pty;

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok()
}

/// Types a command once the prompt is there.
fn goes_to(screen: &mut Pty, command: &str, title: &str) {
    screen.press(":");
    screen.until("the prompt", |s| s.text().contains('>'));
    screen.press(command);
    screen.until(command, |s| s.text().contains(&format!("> {command}")));
    screen.press("\r");
    screen.until(title, |s| s.text().contains(title) && !s.text().contains('>'));
}

async fn becomes(
    objects: &Api<MachineDeployment>,
    name: &str,
    wanted: impl Fn(Option<&MachineDeployment>) -> bool,
) {
    let condition = await_condition(objects.clone(), name, wanted);
    tokio::time::timeout(Duration::from_secs(60), condition).await.expect("in time").expect("watched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s162_k9s_lists_describes_edits_and_deletes() {
    if let Some(missing) = ["k9s", "kubectl"].into_iter().find(|program| !is_installed(program)) {
        println!("skipped: {missing} is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--sample", "healthy-ha", "--no-engine"]);
    let objects: Api<MachineDeployment> = Api::namespaced(server.client().await, "default");
    let mut command = CommandBuilder::new("k9s");
    command.args(["--headless", "--crumbsless", "--splashless", "--command", "clusters", "--kubeconfig"]);
    command.arg(server.kubeconfig());
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env(variable, folder.path());
    }
    command.env("TERM", "xterm-256color");
    for variable in ["EDITOR", "KUBE_EDITOR", "K9S_EDITOR"] {
        command.env(variable, r"sed -i s/replicas:.2/replicas:\ 4/");
    }
    let mut screen = Pty::open(command);
    screen.shows("clusters(default)[1]");
    screen.shows("aurora");
    for (short, title) in
        [("kcp", "kubeadmcontrolplanes("), ("devclusters", "devclusters("), ("md", "machinedeployments(")]
    {
        goes_to(&mut screen, short, title);
        screen.shows("aurora");
    }
    screen.press("d");
    screen.shows("API Version:");
    screen.press("\x1b");
    screen.until("the list again", |s| !s.text().contains("API Version:") && s.text().contains("aurora-web"));
    screen.press("e");
    becomes(&objects, "aurora-batch", |o| o.is_some_and(|o| o.spec.replicas == Some(4))).await;
    screen.shows("aurora-batch");
    screen.press("\x04");
    screen.shows("Delete machinedeployments");
    screen.press("\t\r");
    becomes(&objects, "aurora-batch", |o| o.is_none()).await;
}
