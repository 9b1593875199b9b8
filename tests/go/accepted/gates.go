package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Where feature gates are declared: those of all components together, and kubeadm's own.
var gatePlaces = map[string][]place{
	"kubernetes": {
		{part: "kubernetes", folder: "pkg/features"},
		{part: "apiserver", folder: "pkg/features"},
		{part: "apiextensions-apiserver", folder: "pkg/features"},
		{part: "client-go", folder: "features"},
		{part: "component-base", folder: "logs/api/v1"},
		{part: "component-base", folder: "metrics/features"},
		{part: "component-base", folder: "zpages/features"},
		{part: "controller-manager", folder: "pkg/features"},
	},
	"kubeadm": {{part: "kubernetes", folder: "cmd/kubeadm/app/features"}},
}

type gate struct {
	releases                      span
	default_, lockedOn, lockedOff span
}

func printGates() {
	fmt.Printf("# Feature gates: whose, name, minor releases that have it, those in which it is on by itself, in which it is\n# locked to true, and to false. Written by tests/go/accepted from the modules of Kubernetes 1.%s; names and releases only.\n", strings.Join(releases, " 1."))
	for _, owner := range []string{"kubeadm", "kubernetes"} {
		found := map[string]*gate{}
		for _, release := range releases {
			for _, place := range gatePlaces[owner] {
				module := kubernetes(place.part, release)
				addGates(found, filepath.Join(module, place.folder), minorOf(release))
			}
			if owner == "kubernetes" {
				note(found, "AllAlpha", minorOf(release), spec{})
				note(found, "AllBeta", minorOf(release), spec{})
			}
		}
		var names []string
		for name := range found {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			gate := found[name]
			line := fmt.Sprintf("%s %s %s %s %s %s", owner, name, gate.releases, gate.default_, gate.lockedOn, gate.lockedOff)
			for strings.HasSuffix(line, " -") {
				line = strings.TrimSuffix(line, " -")
			}
			fmt.Println(line)
		}
	}
}

type spec struct{ default_, locked bool }

func note(found map[string]*gate, name string, minor int, spec spec) {
	known := found[name]
	if known == nil {
		known = &gate{}
		found[name] = known
	}
	if count := len(known.releases); count > 0 && known.releases[count-1] == minor {
		return
	}
	known.releases = append(known.releases, minor)
	if spec.default_ {
		known.default_ = append(known.default_, minor)
	}
	if spec.locked && spec.default_ {
		known.lockedOn = append(known.lockedOn, minor)
	} else if spec.locked {
		known.lockedOff = append(known.lockedOff, minor)
	}
}

// addGates finds maps from gates to what they are, in either of their forms.
func addGates(found map[string]*gate, folder string, minor int) {
	names := map[string]string{}
	var files []*ast.File
	for _, path := range sources(folder) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			fail("%s: %v", path, err)
		}
		files = append(files, file)
		reader{constants: names}.learn(file)
	}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			literal, is := node.(*ast.CompositeLit)
			if is && isGates(literal) {
				for _, element := range literal.Elts {
					if pair, is := element.(*ast.KeyValueExpr); is {
						if name := gateName(pair.Key, names); name != "" {
							if spec, there := specOf(pair.Value, minor); there {
								note(found, name, minor, spec)
							}
						}
					}
				}
			}
			return true
		})
	}
}

func isGates(literal *ast.CompositeLit) bool {
	switch kind := literal.Type.(type) {
	case *ast.MapType:
		switch value := kind.Value.(type) {
		case *ast.SelectorExpr:
			return value.Sel.Name == "FeatureSpec" || value.Sel.Name == "VersionedSpecs"
		case *ast.Ident:
			return value.Name == "FeatureSpec" || value.Name == "VersionedSpecs"
		}
	case *ast.Ident:
		return kind.Name == "FeatureList"
	}
	return false
}

// gateName is the text of a gate: of a constant of this package, or of one of another, which is named as its text is.
func gateName(key ast.Expr, names map[string]string) string {
	switch key := key.(type) {
	case *ast.Ident:
		return names[key.Name]
	case *ast.SelectorExpr:
		return key.Sel.Name
	}
	return ""
}

// specOf is what counts in a minor release; false: the gate is of a later one.
func specOf(value ast.Expr, minor int) (spec, bool) {
	var counts spec
	var there bool
	literal, is := value.(*ast.CompositeLit)
	if !is {
		return counts, false
	}
	if len(literal.Elts) > 0 {
		if _, versioned := literal.Elts[0].(*ast.CompositeLit); !versioned {
			return fields(literal), true
		}
	}
	for _, element := range literal.Elts {
		one, is := element.(*ast.CompositeLit)
		if is && since(one) <= minor {
			counts, there = fields(one), true
		}
	}
	return counts, there
}

func fields(literal *ast.CompositeLit) spec {
	var found spec
	ast.Inspect(literal, func(node ast.Node) bool {
		pair, is := node.(*ast.KeyValueExpr)
		if !is {
			return true
		}
		name, _ := pair.Key.(*ast.Ident)
		value, _ := pair.Value.(*ast.Ident)
		if name != nil && value != nil && value.Name == "true" {
			found.default_ = found.default_ || name.Name == "Default"
			found.locked = found.locked || name.Name == "LockToDefault"
		}
		return true
	})
	return found
}

// since is the minor release of `Version: version.MustParse("1.31")`.
func since(literal *ast.CompositeLit) int {
	minor := 0
	ast.Inspect(literal, func(node ast.Node) bool {
		text, is := node.(*ast.BasicLit)
		if !is || text.Kind != token.STRING {
			return true
		}
		if version, err := strconv.Unquote(text.Value); err == nil {
			_, _ = fmt.Sscanf(version, "1.%d", &minor)
		}
		return true
	})
	return minor
}
