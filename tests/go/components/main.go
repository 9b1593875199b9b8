// Components asks the components of Kubernetes themselves whether they accept a configuration: flags as each program
// parses, completes and validates them, documents of kubelet and kube-proxy as these decode and validate them.
//
// It reads cases, one JSON object a line, and prints for each `ok` or `refused: WHY`. A case is judged in a process of
// its own, because feature gates are global. `flags COMPONENT` lists the flags with their types.
//
// Not seen by it: flags that kube-apiserver registers beside its options before 1.34 (cmd/kube-apiserver/app/options/globalflags.go).
// tests/lab/accepted.py reads what the program itself says.
//
// It has a module of its own, because building Kubernetes takes minutes; nothing runs it but a person who records vectors
// anew (crates/kubeadm-change/src/accepted/vectors, docs/testing.md):
//
//	cd tests/go/components && CGO_ENABLED=0 go build -o components . && ./components <cases
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	flag "flag"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/version/verflag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	managerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	kubeletvalidation "k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	kubeletcodec "k8s.io/kubernetes/pkg/kubelet/kubeletconfig/util/codec"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
)

type question struct {
	Component string   `json:"component"`
	Flags     []string `json:"flags,omitempty"`
	Document  string   `json:"document,omitempty"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "flags" {
		list(os.Args[2])
		return
	}
	if len(os.Args) > 1 {
		var asked question
		if err := json.Unmarshal([]byte(os.Args[1]), &asked); err != nil {
			fmt.Println("unreadable:", err)
			os.Exit(1)
		}
		if err := judge(asked); err != nil {
			fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", " "))
			return
		}
		fmt.Println("ok")
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		answer, err := exec.Command(os.Args[0], lines.Text()).Output()
		said := strings.Split(strings.TrimSpace(string(answer)), "\n")
		last := said[len(said)-1]
		if err != nil || (last != "ok" && !strings.HasPrefix(last, "refused")) {
			last = fmt.Sprintf("refused: it ended with %v", err)
		}
		fmt.Println(last)
	}
}

func judge(asked question) error {
	switch asked.Component {
	case "kubelet":
		return kubelet([]byte(asked.Document))
	case "kube-proxy":
		return kubeProxy([]byte(asked.Document))
	}
	flags, validate, err := program(asked.Component)
	if err != nil {
		return err
	}
	if err := flags.Parse(asked.Flags); err != nil {
		return err
	}
	return validate()
}

func list(component string) {
	flags, _, err := program(component)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		state := "-"
		if f.Deprecated != "" {
			state = "deprecated"
		}
		fmt.Printf("%s\t%s\t%s\t%q\n", f.Name, f.Value.Type(), state, f.DefValue)
	})
}

func program(component string) (*pflag.FlagSet, func() error, error) {
	flags := pflag.NewFlagSet(component, pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	join := func(sets cliflag.NamedFlagSets) {
		verflag.AddFlags(sets.FlagSet("global"))
		globalflag.AddGlobalFlags(sets.FlagSet("global"), component, logs.SkipLoggingConfigurationFlags())
		for _, set := range sets.FlagSets {
			flags.AddFlagSet(set)
		}
	}
	switch component {
	case "kube-apiserver":
		_ = logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate)
		s := apiserver.NewServerRunOptions()
		join(s.Flags())
		return flags, func() error {
			if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(s.Logs, utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			completed, err := s.Complete(context.Background())
			if err != nil {
				return err
			}
			return utilerrors.NewAggregate(completed.Validate())
		}, nil
	case "kube-controller-manager":
		s, err := manager.NewKubeControllerManagerOptions()
		if err != nil {
			return nil, nil, err
		}
		all, disabled, aliases := managerapp.KnownControllers(), managerapp.ControllersDisabledByDefault(), managerapp.ControllerAliases()
		join(s.Flags(all, disabled, aliases))
		return flags, func() error {
			if err := s.ComponentGlobalsRegistry.Set(); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(s.Logs, utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			return s.Validate(all, disabled, aliases)
		}, nil
	case "kube-scheduler":
		s := scheduler.NewOptions()
		join(*s.Flags)
		return flags, func() error {
			if err := s.ComponentGlobalsRegistry.Set(); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(s.Logs, utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			config, err := latest.Default()
			if err != nil {
				return err
			}
			s.ComponentConfig = config
			s.ApplyDeprecated()
			s.ApplyLeaderElectionTo(s.ComponentConfig)
			return utilerrors.NewAggregate(s.Validate())
		}, nil
	case "etcd":
		config := embed.NewConfig()
		set := flag.NewFlagSet("etcd", flag.ContinueOnError)
		config.AddFlags(set)
		flags.SetNormalizeFunc(nil)
		flags.AddGoFlagSet(set)
		return flags, func() error { return config.Validate() }, nil
	}
	return nil, nil, fmt.Errorf("unknown component %q", component)
}

func kubelet(document []byte) error {
	_, codecs, err := kubeletscheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		return err
	}
	read, err := kubeletcodec.DecodeKubeletConfiguration(context.Background(), codecs, document)
	if err != nil {
		return err
	}
	if read.EvictionHard == nil {
		read.EvictionHard = map[string]string{}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(read.FeatureGates); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApplyAsField(&read.Logging, utilfeature.DefaultFeatureGate, field.NewPath("logging")); err != nil {
		return err
	}
	return kubeletvalidation.ValidateKubeletConfiguration(read, utilfeature.DefaultFeatureGate)
}

func kubeProxy(document []byte) error {
	file, err := os.CreateTemp("", "kube-proxy")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(document); err != nil {
		return err
	}
	options := proxy.NewOptions()
	flags := pflag.NewFlagSet("kube-proxy", pflag.ContinueOnError)
	options.AddFlags(flags)
	if err := flags.Parse([]string{"--config", file.Name()}); err != nil {
		return err
	}
	if err := options.Complete(flags); err != nil {
		return err
	}
	if err := options.Validate(); err != nil {
		return err
	}
	if options.ConfigFile == "" {
		return errors.New("no file was read")
	}
	return nil
}
