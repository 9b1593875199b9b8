// Lists the rules whose upstream code has changed since the version that their `Source:` lines name. Nothing is judged: a person looks at
// each, and writes the new version into the line.

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
)

func main() {
	withCandidates := flag.Bool("pre", false, "candidates of releases count")
	flag.Parse()
	if err := run(flag.Arg(0), *withCandidates); err != nil {
		fmt.Fprintln(os.Stderr, "tests/upstream:", err)
		os.Exit(1)
	}
}

func run(root string, withCandidates bool) error {
	sources, err := sourcesOf(root)
	if err != nil {
		return err
	}
	proxy := &proxy{folders: map[string]string{}, versions: map[string][]string{}, withCandidates: withCandidates}
	report := &report{compared: map[string]int{}, lines: map[string][]string{}, seen: map[string]bool{}}
	for _, one := range sources {
		if err := report.add(proxy, one); err != nil {
			return fmt.Errorf("%s: %w", one.ours, err)
		}
	}
	report.print(len(sources))
	return nil
}

// More files than this with one name: which of them is meant is not known.
const ambiguous = 3

// report collects lines by module.
type report struct {
	unversioned, missing int
	// Files of a module and its two versions.
	compared map[string]int
	lines    map[string][]string
	seen     map[string]bool
}

func (r *report) add(proxy *proxy, one source) error {
	if one.version == "" {
		r.unversioned++
		return nil
	}
	from, err := proxy.exact(one.module, one.version)
	if err != nil {
		return err
	}
	if from == "" {
		// The version is that of another module in the same line.
		r.unversioned++
		return nil
	}
	to, err := proxy.newest(one.module)
	if err != nil {
		return err
	}
	before, err := proxy.folder(one.module, from)
	if err != nil {
		return err
	}
	after, err := proxy.folder(one.module, to)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("%s %s to %s", one.module, from, to)
	for _, path := range one.paths {
		files := find(before, path)
		if len(files) == 0 || len(files) > ambiguous {
			r.missing++
			continue
		}
		for _, file := range files {
			r.compared[head]++
			what, err := difference(before, after, file, one.names)
			if err != nil {
				return err
			}
			if what != "" {
				r.line(head, one.ours, file+": "+what)
			}
		}
	}
	return nil
}

// difference gives what changed in a file, in words; "" when nothing did.
func difference(before, after, file string, names []string) (string, error) {
	newer := file
	if _, err := os.Stat(after + "/" + file); err != nil {
		// It may have moved: others end in the same words, so they are looked at only then.
		moved := find(after, file)
		if len(moved) == 0 {
			return "is gone", nil
		}
		newer = moved[0]
	}
	differing, err := changed(before+"/"+file, after+"/"+newer, names)
	return strings.Join(differing, ", "), err
}

func (r *report) line(head, ours, what string) {
	line := fmt.Sprintf("  %s\n    %s", ours, what)
	if !r.seen[head+line] {
		r.seen[head+line] = true
		r.lines[head] = append(r.lines[head], line)
	}
}

func (r *report) print(sources int) {
	var heads []string
	for head := range r.compared {
		heads = append(heads, head)
	}
	sort.Strings(heads)
	for _, head := range heads {
		fmt.Printf("%s: %d files, changed in %d rules\n", head, r.compared[head], len(r.lines[head]))
		sort.Strings(r.lines[head])
		for _, line := range r.lines[head] {
			fmt.Println(line)
		}
	}
	fmt.Printf("%d sources; %d name no version of their module, %d files were not found or are several\n",
		sources, r.unversioned, r.missing)
}

// proxy downloads modules through Go's own client.
type proxy struct {
	folders        map[string]string
	versions       map[string][]string
	withCandidates bool
}

func (p *proxy) list(module string) ([]string, error) {
	if known, ok := p.versions[module]; ok {
		return known, nil
	}
	out, err := goCommand("list", "-m", "-versions", "-json", module)
	if err != nil {
		return nil, err
	}
	var listed struct{ Versions []string }
	if err := json.Unmarshal(out, &listed); err != nil {
		return nil, err
	}
	p.versions[module] = listed.Versions
	return listed.Versions, nil
}

// exact gives the release, or the newest patch release of a version that names none; "" when there is none.
func (p *proxy) exact(module, version string) (string, error) {
	if strings.Count(version, ".") == 2 {
		// A list of versions need not have all that are there.
		if _, err := p.folder(module, version); err != nil {
			return "", nil
		}
		return version, nil
	}
	all, err := p.list(module)
	if err != nil {
		return "", err
	}
	found := ""
	for _, one := range all {
		if strings.HasPrefix(one, version+".") && !strings.Contains(one, "-") {
			found = one
		}
	}
	return found, nil
}

func (p *proxy) newest(module string) (string, error) {
	all, err := p.list(module)
	if err != nil {
		return "", err
	}
	for at := len(all) - 1; at >= 0; at-- {
		if p.withCandidates || !strings.Contains(all[at], "-") {
			return all[at], nil
		}
	}
	return "", fmt.Errorf("%s has no release", module)
}

func (p *proxy) folder(module, version string) (string, error) {
	key := module + "@" + version
	if known, ok := p.folders[key]; ok {
		return known, nil
	}
	out, err := goCommand("mod", "download", "-json", key)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir, Error string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", err
	}
	if downloaded.Error != "" {
		return "", fmt.Errorf("%s: %s", key, downloaded.Error)
	}
	p.folders[key] = downloaded.Dir
	return downloaded.Dir, nil
}

func goCommand(args ...string) ([]byte, error) {
	command := exec.Command("go", args...)
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	command.Stderr = os.Stderr
	return command.Output()
}
