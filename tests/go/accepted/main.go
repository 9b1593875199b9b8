// Accepted reads the sources of Kubernetes' components from their public modules, one release of each minor, and prints what
// they accept: the flags of each component with the type of their values, and the feature gates.
//
//	go run ./accepted flags >../../crates/kubeadm-change/src/accepted/flags.txt
//	go run ./accepted gates >../../crates/kubeadm-change/src/accepted/gates.txt
//
// Nothing is built: a flag is a call such as `fs.BoolVar(&x, "profiling", …)` in the packages that a component takes its
// options from. What this finds for the release that tests/go/components builds is compared with what the programs say.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// The releases that are read; a minor release that is not here has the answers of the one before.
var releases = []string{
	"26.9", "27.16", "28.15", "29.14", "30.14", "31.14", "32.13", "33.13", "34.4", "35.4", "36.3", "37.2",
}

// Releases of etcd: the minor of its version 3 instead of that of Kubernetes.
var etcdReleases = []string{"3.5.24", "3.6.8", "3.7.0"}

func main() {
	if len(os.Args) != 2 {
		fail("expected `flags` or `gates`")
	}
	switch os.Args[1] {
	case "flags":
		printFlags()
	case "gates":
		printGates()
	default:
		fail("expected `flags` or `gates`")
	}
}

func fail(format string, words ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", words...)
	os.Exit(1)
}

// minorOf is 36 for 36.3, and 6 for 3.6.8.
func minorOf(release string) int {
	words := strings.Split(release, ".")
	word := words[0]
	if len(words) == 3 {
		word = words[1]
	}
	var minor int
	if _, err := fmt.Sscan(word, &minor); err != nil {
		fail("%s: %v", release, err)
	}
	return minor
}

// folder is where the sources of a module are, downloaded when they were not yet.
func folder(module, version string) string {
	output, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	var found struct{ Dir, Error string }
	if json.Unmarshal(output, &found) != nil || found.Dir == "" {
		fail("%s@%s: %s %v", module, version, found.Error, err)
	}
	return found.Dir
}

// kubernetes is the folder of one of Kubernetes' modules: of the main one, or of a part such as apiserver.
func kubernetes(part, release string) string {
	if part == "kubernetes" {
		return folder("k8s.io/kubernetes", "v1."+release)
	}
	return folder("k8s.io/"+part, "v0."+release)
}

// span is in which minor releases something is: one range, or several where it came back.
type span []int

func (s span) String() string {
	sort.Ints(s)
	var ranges []string
	for at := 0; at < len(s); {
		end := at
		for end+1 < len(s) && s[end+1] <= s[end]+1 {
			end++
		}
		ranges = append(ranges, fmt.Sprintf("%d-%d", s[at], s[end]))
		at = end + 1
	}
	if ranges == nil {
		return "-"
	}
	return strings.Join(ranges, ",")
}

func sources(folder string) []string {
	found, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		fail("%s: %v", folder, err)
	}
	var files []string
	for _, file := range found {
		name := strings.TrimSuffix(filepath.Base(file), ".go")
		if !strings.HasSuffix(name, "_test") && !strings.HasSuffix(name, "_windows") {
			files = append(files, file)
		}
	}
	return files
}
