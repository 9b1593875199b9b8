// Which files and declarations of upstream a rule names in its `Source:` line.

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A file of ours, and what it names of one module.
type source struct {
	ours    string
	module  string
	version string
	// Paths, of which only the end is named; with braces expanded.
	paths []string
	// Functions, types and constants.
	names []string
}

// Words of Source lines, and the modules that they mean.
var modules = map[string]string{
	"cluster-api":             "sigs.k8s.io/cluster-api",
	"kcp":                     "sigs.k8s.io/cluster-api",
	"kubernetes":              "k8s.io/kubernetes",
	"kubeadm":                 "k8s.io/kubernetes",
	"kubelet":                 "k8s.io/kubernetes",
	"apiserver":               "k8s.io/apiserver",
	"apiextensions-apiserver": "k8s.io/apiextensions-apiserver",
	"apimachinery":            "k8s.io/apimachinery",
	"client-go":               "k8s.io/client-go",
	"kubectl":                 "k8s.io/kubectl",
	"component-base":          "k8s.io/component-base",
	"kube-openapi":            "k8s.io/kube-openapi",
	"cloud-provider":          "k8s.io/cloud-provider",
	"controller-manager":      "k8s.io/controller-manager",
	"structured-merge-diff":   "sigs.k8s.io/structured-merge-diff/v6",
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"cel-go":                  "github.com/google/cel-go",
}

// What a line without a version means: the release of record.
var ofRecord = map[string]string{
	"sigs.k8s.io/cluster-api": "v1.14.2",
}

var (
	quoted  = regexp.MustCompile("`([^`]+)`")
	release = regexp.MustCompile(`^v?(\d+\.\d+(?:\.\d+)?)[.,;:)]*$`)
	name    = regexp.MustCompile(`^\w+$`)
)

// sourcesOf reads every Rust and TOML file below root.
func sourcesOf(root string) ([]source, error) {
	var found []source
	for _, part := range []string{"crates", "src"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !(strings.HasSuffix(path, ".rs") || strings.HasSuffix(path, ".toml")) {
				return err
			}
			blocks, err := blocksIn(path)
			ours, _ := filepath.Rel(root, path)
			for _, block := range blocks {
				found = append(found, parse(ours, block)...)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// blocksIn gives each comment from its `Source:` to its end, as one line.
func blocksIn(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var blocks []string
	inside := false
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		comment := strings.TrimLeft(text, "/!# ")
		isComment := strings.HasPrefix(text, "//") || strings.HasPrefix(text, "#")
		at := strings.Index(comment, "Source: ")
		switch {
		case isComment && at >= 0:
			blocks = append(blocks, comment[at+len("Source: "):])
			inside = true
		case inside && isComment && comment != "":
			blocks[len(blocks)-1] += " " + comment
		default:
			inside = false
		}
	}
	return blocks, lines.Err()
}

// parse reads a block word by word: a project, its paths and names, and the version of all that came since the last one.
func parse(ours, block string) []source {
	var done, open []source
	current := source{ours: ours, module: "sigs.k8s.io/cluster-api"}
	flush := func() {
		if len(current.paths) > 0 {
			open = append(open, current)
		}
		current = source{ours: ours, module: current.module}
	}
	for _, word := range words(block) {
		bare := strings.Trim(strings.ToLower(word), "`.,;:()'")
		bare = strings.TrimPrefix(strings.TrimPrefix(bare, "k8s.io/"), "sigs.k8s.io/")
		if module, ok := modules[bare]; ok {
			flush()
			current.module = module
			continue
		}
		if version := release.FindStringSubmatch(word); version != nil {
			flush()
			for _, one := range open {
				one.version = "v" + version[1]
				done = append(done, one)
			}
			open = nil
			continue
		}
		if text := quoted.FindStringSubmatch(word); text != nil {
			if strings.Contains(text[1], ".go") {
				current.paths = append(current.paths, expand(text[1])...)
			} else if name.MatchString(text[1]) {
				current.names = append(current.names, text[1])
			}
		}
	}
	flush()
	for _, one := range open {
		one.version = ofRecord[one.module]
		done = append(done, one)
	}
	return done
}

// words splits at blanks outside of backticks.
func words(block string) []string {
	var all []string
	isQuoted, word := false, ""
	for _, c := range block + " " {
		if c == '`' {
			isQuoted = !isQuoted
		}
		if c == ' ' && !isQuoted {
			if word != "" {
				all = append(all, word)
			}
			word = ""
			continue
		}
		word += string(c)
	}
	return all
}

// expand reads `a/{b,c}.go`.
func expand(path string) []string {
	from, to := strings.Index(path, "{"), strings.Index(path, "}")
	if from < 0 || to < from {
		return []string{path}
	}
	var all []string
	for _, choice := range strings.Split(path[from+1:to], ",") {
		all = append(all, expand(path[:from]+choice+path[to+1:])...)
	}
	return all
}
