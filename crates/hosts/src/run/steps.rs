//! The steps of bootstrap data, in the order in which cloud-init would carry them out. Owns that order, and the words of the script
//! for each; must not know how a script is run.
//! Source: cloud-init `config/cloud.cfg.tmpl`, 04eacd06 (2026-08): bootcmd, write_files, mounts, users_groups, ntp,
//! write_files_deferred, scripts_user (what runcmd left).

use capstan_base::command_line::CommandLine;
use capstan_base::text::{sanitize_line, truncate};

use super::options::{KubeadmStep, KubeadmVerb, RunOptions};
use super::redactor::Redactor;
use super::step::{PlannedStep, StepKind, sha256_of};
use crate::bootstrap::{BootstrapData, CommandToRun, FileToWrite, MountToMake, TimeServers, UserToMake};

const TITLE_CELLS_MAX: usize = 160;
/// By the contract of bootstrap providers it is written behind kubeadm's success.
const SENTINEL: &str = "/run/cluster-api/bootstrap-success.complete";

/// Steps in the making.
#[derive(Default)]
pub(super) struct Steps {
    pub planned: Vec<PlannedStep>,
    pub kubeadm: Option<KubeadmStep>,
}

impl Steps {
    pub fn of_bootstrap(data: &BootstrapData, options: &RunOptions) -> Self {
        let mut steps = Self::default();
        let commands: Vec<String> = data.boot_commands.iter().chain(&data.commands).map(program_of).collect();
        let of_commands = commands.iter().map(|text| (text.as_str(), false));
        let redactor = Redactor::of(secret_texts(data).into_iter().chain(of_commands));
        steps.plain(
            StepKind::Note,
            "note the network configuration that is there",
            CommandLine::of("note_network", []),
        );
        for command in &data.boot_commands {
            steps.boot_command(command, &data.instance_id, &redactor);
        }
        for file in data.files.iter().filter(|file| !file.is_deferred) {
            steps.file(file);
        }
        steps.mounts(&data.mounts);
        for user in &data.users {
            steps.user(user);
        }
        if let Some(servers) = &data.time_servers {
            steps.time_servers(servers);
        }
        for file in data.files.iter().filter(|file| file.is_deferred) {
            steps.file(file);
        }
        if let Some(id) = &options.provider_id {
            let title = format!("let the kubelet name its Node {}", sanitize_line(id));
            steps.plain(StepKind::Kubelet, title, CommandLine::of("set_provider_id {}", [id]));
        }
        let kubeadm = kubeadm_command(data);
        for (at, command) in data.commands.iter().enumerate() {
            steps.command(
                command,
                &redactor,
                kubeadm.filter(|(number, _)| *number == at).map(|(_, verb)| verb),
            );
        }
        steps.forget_configurations(data);
        steps
    }

    /// A step without content.
    pub fn plain(&mut self, kind: StepKind, title: impl Into<String>, words: CommandLine) {
        self.push(kind, title.into(), words, None, false);
    }

    fn next_label(&self) -> String {
        PlannedStep::label(self.next_number())
    }

    fn next_number(&self) -> u32 {
        u32::try_from(self.planned.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    fn push(
        &mut self,
        kind: StepKind,
        title: String,
        words: CommandLine,
        content: Option<Vec<u8>>,
        is_private: bool,
    ) {
        let (bytes, sha256) = (content.as_ref().map(Vec::len), content.as_deref().map(sha256_of));
        let title = truncate(&sanitize_line(&title), TITLE_CELLS_MAX, "...");
        self.planned.push(PlannedStep {
            number: self.next_number(),
            kind,
            title,
            bytes,
            sha256,
            words,
            content,
            is_private,
        });
    }

    fn file(&mut self, file: &FileToWrite) {
        let mode = format!("{:04o}", file.mode);
        let words = [self.next_label(), file.path.clone(), mode.clone(), file.owner.clone()];
        let words = words.each_ref().map(String::as_str);
        let (verb, words) = match file.append {
            true => ("append to", CommandLine::of("append_file {} {} {} {}", words)),
            false => ("write", CommandLine::of("put_file {} {} {} {}", words)),
        };
        let title = format!("{verb} {} as {mode} of {}", file.path, file.owner);
        self.push(StepKind::File, title, words, Some(file.content.clone()), file.mode & 0o077 == 0);
    }

    fn boot_command(&mut self, command: &CommandToRun, instance: &str, redactor: &Redactor) {
        let words = CommandLine::of("run_boot_command {} {}", [&self.next_label(), instance]);
        let text = program_of(command);
        let title = format!("run at boot: {}", redactor.redact(text.trim_end()));
        self.push(StepKind::BootCommand, title, words, Some(text.into_bytes()), false);
    }

    fn command(&mut self, command: &CommandToRun, redactor: &Redactor, verb: Option<KubeadmVerb>) {
        let words = CommandLine::of("run_command {}", [&self.next_label()]);
        let text = program_of(command);
        let title = format!("run: {}", redactor.redact(text.trim_end()));
        let kind = if verb.is_some() { StepKind::Kubeadm } else { StepKind::Command };
        let of_verb = verb.map(|verb| KubeadmStep { number: self.next_number(), verb });
        self.kubeadm = self.kubeadm.or(of_verb);
        self.push(kind, title, words, Some(text.into_bytes()), false);
    }

    fn mounts(&mut self, mounts: &[MountToMake]) {
        if mounts.is_empty() {
            return;
        }
        let lines: String = mounts.iter().map(|mount| format!("{}\n", mount.line)).collect();
        let folders: Vec<&String> = mounts.iter().filter_map(|mount| mount.folder.as_ref()).collect();
        let words = CommandLine::of("add_mounts {}", [&self.next_label()]);
        let words = folders.iter().fold(words, |words, folder| words.with(&CommandLine::of("{}", [folder])));
        let title = format!(
            "mount {} by /etc/fstab",
            folders.iter().map(|f| f.as_str()).collect::<Vec<_>>().join(", ")
        );
        self.push(StepKind::Mount, title, words, Some(lines.into_bytes()), false);
    }

    fn time_servers(&mut self, servers: &TimeServers) {
        let all: Vec<&str> = servers.servers.iter().chain(&servers.pools).map(String::as_str).collect();
        let lines = |word: &str, names: &[String]| -> String {
            names.iter().map(|name| format!("{word} {name} iburst\n")).collect()
        };
        let chrony = lines("pool", &servers.pools) + &lines("server", &servers.servers);
        let title = format!("ask {} for the time", all.join(", "));
        let words = CommandLine::of("set_time_servers {} {}", [&self.next_label(), &all.join(" ")]);
        self.push(StepKind::Time, title, words, Some(chrony.into_bytes()), false);
    }

    fn user(&mut self, user: &UserToMake) {
        let name = user.name.as_str();
        for group in user.groups.iter().chain(&user.primary_group) {
            self.plain(
                StepKind::User,
                format!("make group {group}"),
                CommandLine::of("make_group {}", [group]),
            );
        }
        self.plain(StepKind::User, format!("make user {name}"), make_user(user));
        if let Some(hash) = &user.password_hash {
            let words = CommandLine::of("set_password {}", [&self.next_label()]);
            let content = format!("{name}:{hash}\n").into_bytes();
            self.push(StepKind::User, format!("set the password of {name}"), words, Some(content), true);
        }
        // An empty password that is not locked would let everybody in.
        let lock = match (user.is_locked, &user.password_hash) {
            (true, _) => Some(("lock", CommandLine::of("lock_password {}", [name]))),
            (false, Some(_)) => Some(("unlock", CommandLine::of("unlock_password {}", [name]))),
            (false, None) => None,
        };
        if let Some((verb, words)) = lock {
            self.plain(StepKind::User, format!("{verb} the password of {name}"), words);
        }
        self.sudo_rules(user);
        if !user.authorized_keys.is_empty() {
            let words = CommandLine::of("authorize_keys {} {}", [&self.next_label(), name]);
            let content = user.authorized_keys.iter().map(|key| format!("{key}\n")).collect::<String>();
            self.push(
                StepKind::User,
                format!("let {name} in by ssh keys"),
                words,
                Some(content.into_bytes()),
                false,
            );
        }
    }

    fn sudo_rules(&mut self, user: &UserToMake) {
        if user.sudo_rules.is_empty() {
            return;
        }
        let name = user.name.as_str();
        let content: String = user.sudo_rules.iter().map(|rule| format!("{name} {rule}\n")).collect();
        // A name with a dot is not read in that folder.
        let path = format!("/etc/sudoers.d/90-capstan-{}", name.replace('.', "-"));
        let words = CommandLine::of("put_sudo_rules {} {}", [&self.next_label(), &path]);
        self.push(
            StepKind::User,
            format!("let {name} use sudo, in {path}"),
            words,
            Some(content.into_bytes()),
            false,
        );
    }

    /// kubeadm's configuration holds a token, and nobody reads it again.
    fn forget_configurations(&mut self, data: &BootstrapData) {
        for file in data.files.iter().filter(|file| file.path.starts_with("/run/kubeadm/")) {
            let title = format!("remove {}", file.path);
            self.plain(StepKind::Note, title, CommandLine::of("remove_file {}", [&file.path]));
        }
    }
}

fn make_user(user: &UserToMake) -> CommandLine {
    let mut words = CommandLine::of("make_user {}", [&user.name]);
    let groups = (!user.groups.is_empty()).then(|| user.groups.join(","));
    for (option, value) in [
        ("--comment", &user.gecos),
        ("--home", &user.home),
        ("--gid", &user.primary_group),
        ("--groups", &groups),
        ("--shell", &user.shell),
        ("--inactive", &user.inactive),
    ] {
        if let Some(value) = value {
            words = words.with(&CommandLine::of("{} {}", [option, value]));
        }
    }
    words
}

/// As cloud-init writes it: a line stands for itself, words are quoted.
fn program_of(command: &CommandToRun) -> String {
    match command {
        CommandToRun::Line(line) => format!("{line}\n"),
        CommandToRun::Words(words) => {
            let quoted: Vec<String> =
                words.iter().map(|word| CommandLine::of("{}", [word]).to_string()).collect();
            format!("{}\n", quoted.join(" "))
        }
    }
}

/// The command after which the machine is a node, and its place: the one that writes the sign of success, where it calls kubeadm itself
/// or by a script that it names, or else the first that calls kubeadm as a whole.
fn kubeadm_command(data: &BootstrapData) -> Option<(usize, KubeadmVerb)> {
    let texts: Vec<String> = data.commands.iter().map(program_of).collect();
    let of_script = |text: &str| {
        let named = data.files.iter().filter(|file| text.contains(&file.path));
        let mut scripts = named.filter_map(|file| std::str::from_utf8(&file.content).ok());
        scripts.find_map(|script| kubeadm_calls(script).first().map(|call| call.verb))
    };
    let signs = texts.iter().enumerate().filter(|(_, text)| text.contains(SENTINEL));
    let signs = signs.map(|(at, text)| (at, kubeadm_verb(text).or_else(|| of_script(text))));
    let others = texts.iter().enumerate().map(|(at, text)| (at, kubeadm_verb(text)));
    signs.chain(others).find_map(|(at, verb)| Some((at, verb?)))
}

/// Of a text that calls `kubeadm init` or `kubeadm join` as a whole, and not only a phase of it.
fn kubeadm_verb(text: &str) -> Option<KubeadmVerb> {
    kubeadm_calls(text).into_iter().find(|call| !call.is_phase).map(|call| call.verb)
}

struct KubeadmCall {
    verb: KubeadmVerb,
    is_phase: bool,
}

/// Outside of comments.
fn kubeadm_calls(text: &str) -> Vec<KubeadmCall> {
    let mut calls = Vec::new();
    for line in text.lines() {
        let words = line.split(|c: char| c.is_whitespace() || ";&|()'\"".contains(c));
        let words = words.filter(|word| !word.is_empty()).take_while(|word| !word.starts_with('#'));
        // Flags may stand before the verb: `kubeadm --v=5 init`.
        let words: Vec<&str> = words.filter(|word| !word.starts_with('-')).collect();
        for (at, pair) in words.windows(2).enumerate() {
            let is_kubeadm = pair[0].rsplit('/').next() == Some("kubeadm");
            let verb = [KubeadmVerb::Init, KubeadmVerb::Join].into_iter().find(|verb| verb.word() == pair[1]);
            let call = |verb| KubeadmCall { verb, is_phase: words.get(at + 2) == Some(&"phase") };
            calls.extend(verb.filter(|_| is_kubeadm).map(call));
        }
    }
    calls
}

/// What may hold secrets, and whether only root may read it.
pub(super) fn secret_texts(data: &BootstrapData) -> Vec<(&str, bool)> {
    let files = data
        .files
        .iter()
        .filter_map(|file| Some((std::str::from_utf8(&file.content).ok()?, file.mode & 0o077 == 0)));
    let hashes = data.users.iter().filter_map(|user| Some((user.password_hash.as_deref()?, true)));
    files.chain(hashes).collect()
}
