// What differs between two versions of the same file: its declarations, without comments and layout.

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// find gives the files of a module, tests left out, whose paths end so.
func find(folder, path string) []string {
	var found []string
	_ = filepath.WalkDir(folder, func(at string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(at, "_test.go") {
			return nil
		}
		within, _ := filepath.Rel(folder, at)
		if within == path || strings.HasSuffix(within, "/"+path) {
			found = append(found, within)
		}
		return nil
	})
	return found
}

// declarations gives the text of each function, type, constant and variable by its name.
func declarations(path string) (map[string]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, declaration := range file.Decls {
		switch declared := declaration.(type) {
		case *ast.FuncDecl:
			all[declared.Name.Name] += text(set, declared)
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					all[spec.Name.Name] += text(set, spec)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						all[name.Name] += text(set, spec)
					}
				}
			}
		}
	}
	return all, nil
}

func text(set *token.FileSet, node any) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, set, node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// changed gives the names that differ: of those that are asked for, as far as the older file has any of them, else of all.
func changed(older, newer string, names []string) ([]string, error) {
	before, err := declarations(older)
	if err != nil {
		return nil, err
	}
	after, err := declarations(newer)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for _, name := range names {
		if _, ok := before[name]; ok {
			asked[name] = true
		}
	}
	var all []string
	for name, text := range before {
		if (len(asked) == 0 || asked[name]) && after[name] != text {
			all = append(all, name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok && len(asked) == 0 {
			all = append(all, "+"+name)
		}
	}
	sort.Strings(all)
	return all, nil
}
