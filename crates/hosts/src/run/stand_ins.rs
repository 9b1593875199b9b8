//! What a run and its reset do to accounts, mounts, links, rules and pods, under real shells: the programs that would change the machine
//! of the test are stand-ins, which note how they were called.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::kills::{Driver, current_user};
use super::tests::instance;
use super::*;
use crate::shell_machine::Machine;
use crate::{bootstrap, clean, owner};

/// Whatever a run or a reset calls to change a machine, but for files.
const CHANGING: [&str; 15] = [
    "chown", "chpasswd", "groupadd", "ip", "ipvsadm", "mount", "nft", "passwd", "swapoff", "swapon",
    "umount", "useradd", "userdel", "usermod", "visudo",
];
/// `getent` of a machine whose users have their homes below its root, and whose one password is this.
const GETENT: &str = "case $1 in
passwd) echo \"$2:x:1:1::$CAPSTAN_ROOT/users/$2:/bin/sh\" ;;
shadow) echo \"$2:\\$6\\$old\\$hash:1:0:::::\" ;;
*) exit 2 ;;
esac
";

/// What the proof says while a reset has left something.
const NOT_GIVEN_BACK: &str =
    "/var/lib/capstan/runs/uid-1/before holds what a run replaced: a reset has not given all of it back";

fn planned(data: &str) -> RunPlan {
    let data = bootstrap::read(&format!("#cloud-config\n{data}"), &instance()).expect("bootstrap data");
    let options = RunOptions { provider_id: Some("capstan-host://h/m".to_owned()) };
    RunPlan::bootstrap(RunId::bootstrap("uid-1").expect("an id"), &data, &options)
}

fn machines() -> Vec<Machine> {
    let machines = Machine::of_each_shell_with_stand_ins();
    for machine in &machines {
        CHANGING.iter().for_each(|name| machine.stand_in(name));
        machine.program("getent", GETENT);
        // There is no table of kube-proxy.
        machine.note("nft.fails", "");
    }
    machines
}

fn claimed(machine: &Machine) -> Driver<'_> {
    let driver = Driver::of(machine);
    driver.ask(&owner::claim(&driver.owner));
    driver
}

fn folder(machine: &Machine, name: &str) {
    fs::create_dir_all(machine.path(name)).expect("a folder");
}

/// Without what the kernel says.
fn files(machine: &Machine) -> BTreeMap<String, String> {
    let mut tree = machine.tree();
    tree.retain(|path, _| !path.starts_with("proc/"));
    tree
}

fn proof(machine: &Machine) -> Vec<String> {
    let proof = clean::read(&machine.answer(&clean::prove())).expect("an answer");
    proof.left.iter().map(ToString::to_string).collect()
}

/// How often stand-ins were called with these words.
fn calls(machine: &Machine, words: &str) -> usize {
    machine.noted("calls").lines().filter(|line| *line == words).count()
}

#[test]
fn accounts_are_made_and_given_back() {
    let user = current_user();
    let user = user.split(':').next().expect("a user");
    let plan = planned(&format!(
        "users:\n- {{name: {user}, passwd: $6$new$hash, ssh_authorized_keys: [ssh-ed25519 BBBB]}}\n- {{name: new-one, groups: 'some', passwd: $6$its$hash, lock_passwd: false}}\n"
    ));
    for machine in machines() {
        let keys = format!("users/{user}/.ssh/authorized_keys");
        folder(&machine, &format!("users/{user}/.ssh"));
        machine.write(&keys, "ssh-ed25519 AAAA\n");
        let before = machine.tree();
        let driver = claimed(&machine);
        driver.drive(&plan);
        assert_eq!(machine.tree()[&keys], "600 ssh-ed25519 AAAA\nssh-ed25519 BBBB\n");
        for words in
            [format!("passwd -l {user}").as_str(), "passwd -u new-one", "useradd --groups some -m new-one"]
        {
            assert_eq!(calls(&machine, words), 1, "{words}: {}", machine.noted("calls"));
        }
        let read = format!("{user}:$6$new$hash\nnew-one:$6$its$hash\n");
        assert_eq!(machine.noted("chpasswd.read"), read);
        // A password that cannot be given back is kept, and the machine is not clean.
        machine.note("chpasswd.fails", "");
        driver.reset(&plan, 1);
        assert!(proof(&machine).contains(&NOT_GIVEN_BACK.to_owned()), "{:?}", proof(&machine));
        fs::remove_file(machine.path("../chpasswd.fails")).expect("a note");
        driver.reset(&plan, 2);
        assert_eq!(proof(&machine), Vec::<String>::new());
        let given_back = format!("{user}:$6$old$hash\n").repeat(2);
        assert_eq!(machine.noted("chpasswd.read"), format!("{read}{given_back}"));
        let mut after = machine.tree();
        after.retain(|path, _| before.contains_key(path));
        assert_eq!(after, before);
    }
}

/// What users who come in by keys alone have instead of a hash: new versions of chpasswd refuse most of it.
#[test]
fn what_is_not_a_hash_is_given_back_without_chpasswd() {
    let user = current_user();
    let user = user.split(':').next().expect("a user");
    let plan = planned(&format!("users:\n- {{name: {user}}}\n"));
    for (hash, is_hash) in [
        ("", false),
        ("!", false),
        ("!!", false),
        ("*", false),
        ("!$y$j9T$salt$hash", true),
        ("abJnggxhB/yWI", true),
    ] {
        for machine in machines() {
            machine.program("getent", &GETENT.replace("\\$6\\$old\\$hash", &hash.replace('$', "\\$")));
            machine.note("chpasswd.fails", "");
            let driver = claimed(&machine);
            driver.drive(&plan);
            driver.reset(&plan, 1);
            let by_usermod = calls(&machine, &format!("usermod -p {hash} {user}"));
            assert_eq!(
                (by_usermod, calls(&machine, "chpasswd -e")),
                (usize::from(!is_hash), usize::from(is_hash))
            );
            let left = if is_hash { vec![NOT_GIVEN_BACK.to_owned()] } else { Vec::new() };
            assert_eq!(proof(&machine), left, "{hash}");
        }
    }
}

#[test]
fn keys_are_written_through_no_link() {
    let user = current_user();
    let user = user.split(':').next().expect("a user");
    let plan = planned(&format!("users:\n- {{name: {user}, ssh_authorized_keys: [ssh-ed25519 BBBB]}}\n"));
    for (link, target) in [(".ssh/authorized_keys", "etc/shadow"), (".ssh", "etc/folder")] {
        for machine in machines() {
            folder(&machine, &format!("users/{user}"));
            folder(&machine, "etc/folder");
            machine.write("etc/shadow", "secret");
            machine.write("etc/folder/authorized_keys", "secret");
            if link != ".ssh" {
                folder(&machine, &format!("users/{user}/.ssh"));
            }
            machine.link(&format!("users/{user}/{link}"), target);
            let before = machine.tree();
            let driver = claimed(&machine);
            driver.change(&upload(&plan, &driver.owner));
            driver.change(&start(&plan.id, &driver.owner, Start { attempt: 1, from_step: 1 }));
            machine.wait_for_job();
            let watched = driver.watched(&plan);
            assert!(watched.journal.is_some_and(|journal| journal.failed().is_some()), "{}", watched.log);
            assert!(watched.log.contains("is a link: put a folder or a file there"), "{}", watched.log);
            let mut after = machine.tree();
            after.retain(|path, _| before.contains_key(path));
            assert_eq!(after, before);
        }
    }
}

#[test]
fn what_a_user_can_swap_is_not_written_through() {
    let user = current_user();
    let user = user.split(':').next().expect("a user");
    let plan = planned(&format!("users:\n- {{name: {user}, ssh_authorized_keys: [ssh-ed25519 BBBB]}}\n"));
    for machine in machines() {
        folder(&machine, &format!("users/{user}/.ssh"));
        machine.write("etc/shadow", "secret");
        machine.link(&format!("users/{user}/.ssh/authorized_keys.capstan"), "etc/shadow");
        claimed(&machine).drive(&plan);
        assert_eq!(machine.tree()["etc/shadow"], "644 secret");
        assert_eq!(machine.tree()[&format!("users/{user}/.ssh/authorized_keys")], "600 ssh-ed25519 BBBB\n");
    }
}

/// Root would delete keys of its own, or replace them: what the user did after the run is not followed when it is taken back.
#[test]
fn a_reset_follows_no_link_that_was_made_after_the_run() {
    let user = current_user();
    let user = user.split(':').next().expect("a user");
    let plan = planned(&format!("users:\n- {{name: {user}, ssh_authorized_keys: [ssh-ed25519 BBBB]}}\n"));
    let below = |tree: &BTreeMap<String, String>, folders: &[&str]| -> BTreeMap<String, String> {
        let is_below = |path: &String| folders.iter().any(|folder| path.starts_with(folder));
        tree.iter().filter(|(path, _)| is_below(path)).map(|(p, t)| (p.clone(), t.clone())).collect()
    };
    for (had_keys, link) in [true, false].into_iter().flat_map(|h| [(h, ".ssh"), (h, ".ssh/authorized_keys")])
    {
        for machine in machines() {
            let place = format!("users/{user}/{link}");
            folder(&machine, &format!("users/{user}/.ssh"));
            folder(&machine, "root/.ssh");
            machine.write("root/.ssh/authorized_keys", "of root");
            if had_keys {
                machine.write(&format!("users/{user}/.ssh/authorized_keys"), "ssh-ed25519 AAAA\n");
            }
            let before = machine.tree();
            let driver = claimed(&machine);
            driver.drive(&plan);
            fs::rename(machine.path(&place), machine.path("aside")).expect("moved");
            machine.link(&place, "root/.ssh");
            driver.reset(&plan, 1);
            assert_eq!(below(&machine.tree(), &["root"]), below(&before, &["root"]), "{link}");
            assert_eq!(proof(&machine), [NOT_GIVEN_BACK], "{link}");
            // As soon as the link is gone, the next reset gives it back.
            fs::remove_file(machine.path(&place)).expect("a link");
            fs::rename(machine.path("aside"), machine.path(&place)).expect("moved");
            driver.reset(&plan, 2);
            assert_eq!(proof(&machine), Vec::<String>::new());
            let given_back = ["root", "users"];
            assert_eq!(below(&machine.tree(), &given_back), below(&before, &given_back), "{link}");
        }
    }
}

/// A user who puts a link in the place of a folder between two programs of the run.
#[test]
fn a_run_follows_no_link_that_is_made_meanwhile() {
    let user = current_user();
    let user = user.split(':').next().expect("a user");
    let plan = planned(&format!("users:\n- {{name: {user}, ssh_authorized_keys: [ssh-ed25519 BBBB]}}\n"));
    let swap = "/bin/mkdir \"$@\" || exit 1
for place in \"$@\"; do :; done
case $place in */.ssh) /bin/rmdir \"$place\" && ln -s \"$CAPSTAN_ROOT/root\"/.ssh \"$place\" ;; esac
";
    for machine in machines() {
        folder(&machine, &format!("users/{user}"));
        folder(&machine, "root/.ssh");
        machine.write("root/.ssh/authorized_keys", "of root");
        let before = machine.tree();
        let driver = claimed(&machine);
        driver.change(&upload(&plan, &driver.owner));
        machine.program("mkdir", swap);
        driver.change(&start(&plan.id, &driver.owner, Start { attempt: 1, from_step: 1 }));
        machine.wait_for_job();
        let watched = driver.watched(&plan);
        assert!(watched.journal.is_some_and(|journal| journal.failed().is_some()), "{}", watched.log);
        assert!(watched.log.contains("or it became a link"), "{}", watched.log);
        let kept = fs::read_dir(machine.path("var/lib/capstan/runs/uid-1/before")).expect("a folder");
        let mut texts =
            kept.map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a text"));
        assert!(texts.all(|text| text != "of root"), "a copy of what root has");
        machine.program("mkdir", "exec /bin/mkdir \"$@\"\n");
        driver.reset(&plan, 1);
        assert_eq!(machine.tree()["root/.ssh/authorized_keys"], before["root/.ssh/authorized_keys"]);
    }
}

#[test]
fn mounts_swap_time_and_provider_id_are_given_back() {
    let data = "mounts: [[sdz1, /data/deep/er], [sdz2, none, swap]]\nntp: {servers: [time.example]}\n";
    let plan = planned(data);
    for machine in machines() {
        ["etc/default", "etc/chrony/sources.d"].iter().for_each(|name| folder(&machine, name));
        machine.write("etc/fstab", "/dev/sda1 / ext4\n");
        machine.write("etc/default/kubelet", "KUBELET_EXTRA_ARGS=\"--v=2\"\n");
        machine.write("proc/swaps", "Filename\tType\n/dev/sda2 partition\n");
        machine.stand_in("chronyd");
        let before = files(&machine);
        let driver = claimed(&machine);
        driver.drive(&plan);
        let tree = machine.tree();
        assert_eq!(tree["data/deep"], "folder 755");
        assert!(
            tree["etc/fstab"].starts_with("644 /dev/sda1 / ext4\n/dev/sdz1\t/data/deep/er\t"),
            "{tree:?}"
        );
        assert_eq!(tree["etc/chrony/sources.d/capstan.sources"], "644 server time.example iburst\n");
        let environment = "644 KUBELET_EXTRA_ARGS=\"--v=2 --provider-id=capstan-host://h/m\"\n";
        assert_eq!(tree["etc/capstan/kubelet.env"], environment);
        assert!(tree.contains_key("etc/systemd/system/kubelet.service.d/90-capstan.conf"), "{tree:?}");
        assert_eq!((calls(&machine, "mount -a"), calls(&machine, "swapon -a")), (1, 1));
        // As it is when both are there.
        let mounted = "/dev/sda1 / ext4 rw 0 0\n/dev/sdz1 /data/deep/er ext4 rw 0 0\n";
        machine.write("proc/mounts", mounted);
        machine.write("proc/swaps", "Filename\tType\n/dev/sda2 partition\n/dev/sdz2 partition\n");
        assert!(proof(&machine).contains(&"/data/deep/er is mounted".to_owned()), "{:?}", proof(&machine));
        driver.reset(&plan, 1);
        for (words, times) in
            [("umount /data/deep/er", 1), ("swapoff /dev/sdz2", 1), ("swapoff /dev/sda2", 0)]
        {
            assert_eq!(calls(&machine, words), times, "{words}: {}", machine.noted("calls"));
        }
        assert_eq!(files(&machine), before);
    }
}

#[test]
fn what_cannot_be_unmounted_is_not_forgotten() {
    let plan =
        planned("write_files: [{path: /etc/a, content: x}]\nmounts: [[sdz1, '/data//with a blank/']]\n");
    for machine in machines() {
        machine.write("etc/fstab", "/dev/sda1 / ext4\n");
        let before = files(&machine);
        let driver = claimed(&machine);
        driver.drive(&plan);
        let lines = machine.tree()["etc/fstab"].clone();
        machine.write("proc/mounts", "/dev/sdz1 /data/with\\040a\\040blank ext4 rw 0 0\n");
        machine.note("umount.fails", "");
        driver.reset(&plan, 1);
        let tree = machine.tree();
        assert_eq!((&tree["etc/fstab"], tree.contains_key("etc/a")), (&lines, false), "{tree:?}");
        assert_eq!(proof(&machine), [NOT_GIVEN_BACK, "/data/with\\040a\\040blank is mounted"]);
        for words in ["umount /data/with a blank", "umount -l /data/with a blank"] {
            assert_eq!(calls(&machine, words), 1, "{words}: {}", machine.noted("calls"));
        }
        fs::remove_file(machine.path("../umount.fails")).expect("a note");
        driver.reset(&plan, 2);
        assert_eq!(calls(&machine, "umount /data/with a blank"), 2, "{}", machine.noted("calls"));
        assert_eq!(files(&machine), before);
    }
}

#[test]
fn a_clock_is_set_by_timesyncd_where_no_chrony_is() {
    let plan = planned("ntp: {servers: [time.example], pools: [pool.example]}\n");
    for machine in machines() {
        folder(&machine, "lib/systemd");
        machine.write("lib/systemd/systemd-timesyncd", "");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(machine.path("lib/systemd/systemd-timesyncd"), mode).expect("a mode");
        claimed(&machine).drive(&plan);
        let written = "644 [Time]\nNTP=time.example pool.example\n";
        assert_eq!(machine.tree()["etc/systemd/timesyncd.conf.d/capstan.conf"], written);
    }
}

const RULES: &str = "*filter
:INPUT ACCEPT [0:0]
:OFFICE - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
-A INPUT -m comment --comment \"of the office: not -j KUBE-FIREWALL\" -j OFFICE
-A INPUT -s 10.0.0.0/8 -m comment --comment \"kubernetes\" -j KUBE-FIREWALL
-A KUBE-FIREWALL -j KUBE-FORWARD
COMMIT
";

/// Each chain is emptied before one is deleted, and of other chains the rules that lead there alone are.
const REMOVED: &str = "*filter
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
-D INPUT -s 10.0.0.0/8 -m comment --comment \"kubernetes\" -j KUBE-FIREWALL
-X KUBE-FORWARD
-X KUBE-FIREWALL
COMMIT
";

#[test]
fn a_reset_takes_links_rules_and_pods_of_kubernetes_and_no_others() {
    for has_ipvs in [true, false] {
        for machine in machines() {
            let names =
                ["iptables-save", "iptables-restore", "ip6tables-save", "ip6tables-restore", "crictl"];
            names.iter().for_each(|name| machine.stand_in(name));
            folder(&machine, "etc/cni/net.d");
            machine.write("etc/cni/net.d/10-office.conflist", "{}");
            machine.note("iptables-save.says", RULES);
            machine.note("crictl.says", "pod-1\n");
            let driver = claimed(&machine);
            let plan = planned("runcmd: [kubeadm init]\n");
            driver.drive(&plan);
            machine.write("etc/cni/net.d/20-flannel.conflist", "{}");
            for link in ["cni0", "eth0", "tunl0"].into_iter().chain(has_ipvs.then_some("kube-ipvs0")) {
                folder(&machine, &format!("sys/class/net/{link}"));
            }
            driver.reset(&plan, 1);
            let links = usize::from(has_ipvs);
            for (words, times) in [
                ("ip link delete cni0", 1),
                ("ip link delete eth0", 0),
                ("ip link delete tunl0", 0),
                ("ip link set tunl0 down", 1),
                ("ip link delete kube-ipvs0", links),
                ("ipvsadm --clear", links),
                ("iptables-restore --noflush", 1),
                ("ip6tables-restore --noflush", 0),
                ("crictl stopp pod-1", 1),
                ("crictl rmp -f pod-1", 1),
                ("nft delete table ip6 kube-proxy", 1),
            ] {
                assert_eq!(calls(&machine, words), times, "{words}: {}", machine.noted("calls"));
            }
            // A reset that is cut off between the two finds the link again.
            let order = machine.noted("calls");
            let (services, link) = (order.find("ipvsadm --clear"), order.find("ip link delete kube-ipvs0"));
            assert!(services < link || !has_ipvs, "{order}");
            assert_eq!(machine.noted("iptables-restore.read"), REMOVED);
            let tree = machine.tree();
            assert!(tree.contains_key("etc/cni/net.d/10-office.conflist"), "{tree:?}");
            assert!(!tree.contains_key("etc/cni/net.d/20-flannel.conflist"), "{tree:?}");
        }
    }
}

/// An `ip` whose tunl0 has the addresses in a note, which it adds and deletes.
const IP: &str = "/bin/echo \"ip $*\" >>\"$MACHINE/calls\"
case \"$*\" in
'-o addr show dev tunl0') /bin/sed 's/.*/7: tunl0    inet & scope global tunl0/' \"$MACHINE/addresses\" ;;
'addr del '*) /bin/sed -i \"\\\\|^$3\\$|d\" \"$MACHINE/addresses\" ;;
esac
";

#[test]
fn addresses_of_other_tunnels_stay() {
    let (others, calico) = ("192.0.2.1/24\n", "10.244.0.1/32\n");
    let plan = planned("runcmd: [kubeadm init]\n");
    for (before, is_taken_down) in [(others, 0), ("", 1)] {
        for machine in machines() {
            machine.program("ip", IP);
            folder(&machine, "sys/class/net/tunl0");
            machine.note("addresses", before);
            let driver = claimed(&machine);
            driver.drive(&plan);
            machine.note("addresses", &format!("{before}{calico}"));
            assert!(proof(&machine).contains(&"network interface tunl0 is there".to_owned()), "{before}");
            driver.reset(&plan, 1);
            assert_eq!(machine.noted("addresses"), before);
            assert_eq!(calls(&machine, "ip addr del 10.244.0.1/32 dev tunl0"), 1);
            assert_eq!(calls(&machine, "ip link set tunl0 down"), is_taken_down, "{before}");
            assert_eq!(proof(&machine), Vec::<String>::new());
        }
    }
}

#[test]
fn the_proof_names_everything_that_is_left() {
    for machine in machines() {
        ["iptables-save", "ip6tables-save", "crictl"].iter().for_each(|name| machine.stand_in(name));
        machine.write("proc/net/tcp", "");
        assert_eq!(proof(&machine), Vec::<String>::new());
        for name in
            ["run/cluster-api", "sys/class/net/nodelocaldns", "sys/class/net/tunl0", "sys/class/net/weave"]
        {
            folder(&machine, name);
        }
        machine.write("run/cluster-api/bootstrap-success.complete", "success\n");
        machine.write("proc/net/tcp", "  sl local st\n 0: 00000000:192B 00000000:0000 0A\n");
        machine.write("etc/fstab", "/dev/sdz1\t/data\text4\tdefaults,comment=capstan\t0\t2\n");
        machine.write(
            "proc/mounts",
            "/dev/sdz1 /data ext4 rw 0 0\ntmpfs /var/lib/kubelet/pods/x tmpfs rw 0 0\n",
        );
        machine.note("ip6tables-save.says", RULES);
        machine.note("crictl.says", "pod-1\n");
        machine.note("ip.says", "7: tunl0 inet 10.0.0.1/32 scope global tunl0\n");
        fs::remove_file(machine.path("../nft.fails")).expect("a note");
        let expected = [
            "file /run/cluster-api/bootstrap-success.complete is there",
            "something listens at port 6443",
            "/var/lib/kubelet/pods/x is mounted",
            "/data is mounted",
            "network interface weave is there",
            "network interface nodelocaldns is there",
            "network interface tunl0 is there",
            "1 rules of iptables are Kubernetes'",
            "table ip kube-proxy of nftables is there",
            "table ip6 kube-proxy of nftables is there",
            "pod pod-1 is in the container runtime",
        ];
        assert_eq!(proof(&machine), expected);
    }
}
