//! Running a shell or a plugin: what is shown before, and what is read for it. Owns the way to the terminal; the program is the
//! runner's affair.

use super::effect::Effect;
use super::model::{Model, Tone};
use super::outside::Kubeconfig;
use super::outside::{OutsideCommand, OutsideProgram};
use super::overlay::Overlay;
use super::overlay::launch::LaunchBox;
use super::overlay::notice::Notice;
use crate::fleet::RowId;
use capi_types::key::ObjectKey;
use capstan_base::text::did_you_mean;

impl Model {
    /// A shell in which kubectl talks to a workload cluster.
    ///
    /// # Errors
    /// The cluster is gone.
    pub fn begin_shell(&mut self, cluster: RowId) -> Result<Vec<Effect>, String> {
        let row = self.fleet.row(cluster).ok_or("the cluster is gone")?;
        let (source, key) = (row.source, row.key());
        let environment = vec![("CLUSTER", key.name.clone()), ("NAMESPACE", key.namespace.clone())];
        let title = format!("shell of Cluster {key}");
        let command = OutsideCommand { title, line: None, environment, kubeconfig: None };
        let ticket = self.next_ticket();
        let launch = LaunchBox {
            ticket,
            source,
            cluster: Some(key),
            command,
            notice: Notice::reading("the kubeconfig"),
            is_reading: true,
        };
        Ok(self.launch(launch))
    }

    /// Shows what a plugin would run on the selected object.
    ///
    /// # Errors
    /// There is no such plugin, it does not take the object, or may not be run here.
    pub fn begin_plugin(&mut self, name: &str) -> Result<Vec<Effect>, String> {
        let plugins = &self.look.plugins;
        let plugin = plugins.named(name).ok_or_else(|| {
            let hint = did_you_mean(name, plugins.names());
            format!("there is no plugin `{name}`{hint}; plugins.toml of the configuration folder has them")
        })?;
        if self.session.read_only && !plugin.is_read_only {
            return Err(format!("read-only: plugin `{name}` does not say that it is `read-only`"));
        }
        let id = self.selected_row().ok_or("no object is selected")?;
        let row = self.fleet.row(id).ok_or("the object does not exist any more")?;
        let kind = row.gvk.kind.clone();
        if !plugin.takes(&kind) {
            return Err(format!("a {kind} does not take plugin `{name}`; it works on {}", plugin.takers()));
        }
        let cluster = self.fleet.cluster_of(id).and_then(|id| self.fleet.row(id)).map(|row| row.key());
        let mut environment = vec![
            ("NAMESPACE", row.namespace.to_string()),
            ("NAME", row.name.to_string()),
            ("KIND", kind),
            ("CLUSTER", cluster.as_ref().map(|key| key.name.clone()).unwrap_or_default()),
            ("CONTEXT", self.session.title.clone()),
        ];
        let mut of_cluster: Option<ObjectKey> = None;
        if plugin.takes_workload_kubeconfig {
            of_cluster = Some(cluster.ok_or("the object belongs to no cluster that is known")?);
        } else if let Some(path) = &self.kubeconfig {
            environment.push(("KUBECONFIG", path.display().to_string()));
        }
        let title = format!("plugin {name} on {} {}", row.gvk.kind, row.key());
        let command =
            OutsideCommand { title, line: Some(plugin.command.clone()), environment, kubeconfig: None };
        let (source, ticket) = (row.source, self.next_ticket());
        let notice = asked(&command, of_cluster.as_ref());
        let launch = LaunchBox { ticket, source, cluster: of_cluster, command, notice, is_reading: false };
        self.overlays.push(Overlay::Launch(Box::new(launch)));
        Ok(Vec::new())
    }

    /// Runs what a dialog showed, after the kubeconfig was read if it needs one.
    pub fn launch(&mut self, launch: LaunchBox) -> Vec<Effect> {
        let Some(cluster) = launch.cluster.clone() else {
            return vec![Effect::Outside(OutsideProgram::Command(launch.command))];
        };
        let effect = Effect::ReadKubeconfig { ticket: launch.ticket, source: launch.source, cluster };
        let notice = Notice::reading(launch.command.title.clone());
        self.overlays.push(Overlay::Launch(Box::new(LaunchBox { notice, is_reading: true, ..launch })));
        vec![effect]
    }

    /// The kubeconfig was read: the program is run, if the person still waits for it.
    pub fn launch_with(&mut self, ticket: u64, result: Result<Kubeconfig, String>) -> Vec<Effect> {
        let is_it = |overlay: &Overlay| matches!(overlay, Overlay::Launch(launch) if launch.ticket == ticket);
        let Some(at) = self.overlays.iter().position(is_it) else { return Vec::new() };
        let Overlay::Launch(launch) = self.overlays.remove(at) else { return Vec::new() };
        match result {
            Ok(kubeconfig) => {
                let command = OutsideCommand { kubeconfig: Some(kubeconfig), ..launch.command };
                vec![Effect::Outside(OutsideProgram::Command(command))]
            }
            Err(why) => {
                self.notice("Nothing was run", why);
                Vec::new()
            }
        }
    }

    pub fn launch_ended(&mut self, title: &str, failure: Option<String>) {
        match failure {
            Some(why) => self.say(Tone::Warning, format!("{title}: {why}")),
            None => self.say(Tone::Info, format!("{title} ended")),
        }
    }
}

/// The exact command with its environment.
fn asked(command: &OutsideCommand, cluster: Option<&ObjectKey>) -> Notice {
    let mut lines = vec![command.line.clone().unwrap_or_default(), String::new()];
    lines.extend(command.environment.iter().map(|(name, value)| format!("{name}={value}")));
    lines.extend(cluster.map(|key| format!("KUBECONFIG=(a file with that of Cluster {key}, while it runs)")));
    let keys = [("enter", "run it"), ("esc", "leave it")];
    Notice::overview(command.title.clone(), lines.join("\n")).with_keys(keys)
}
