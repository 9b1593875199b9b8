package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// A place is a package that a component takes flags from, without the options it does not use.
type place struct {
	part, folder string
	only         *regexp.Regexp // receivers and functions; nil: all
	not          *regexp.Regexp
}

var (
	serving    = regexp.MustCompile(`^(SecureServingOptions|DelegatingAuth\w+|RequestHeaderAuthenticationOptions|ClientCertAuthenticationOptions)\.`)
	delegating = regexp.MustCompile(`^(DelegatingAuth\w+|CoreAPIOptions|RecommendedOptions|DeprecatedInsecureServing\w*)\.`)
	everywhere = []place{
		{part: "component-base", folder: "logs/api/v1"},
		{part: "component-base", folder: "logs", only: regexp.MustCompile(`^addKlogFlags`)},
		{part: "component-base", folder: "metrics"},
		{part: "component-base", folder: "version/verflag"},
		{part: "component-base", folder: "cli/globalflag"},
		{part: "component-base", folder: "featuregate"},
		{part: "component-base", folder: "compatibility"},
		{part: "component-base", folder: "version"},
		{part: "apiserver", folder: "pkg/util/version"},
	}
	lock   = place{part: "component-base", folder: "config/options"}
	places = map[string][]place{
		"kube-apiserver": {
			{part: "kubernetes", folder: "cmd/kube-apiserver/app/options"},
			{part: "kubernetes", folder: "pkg/controlplane/apiserver/options"},
			{part: "kubernetes", folder: "pkg/kubeapiserver/options"},
			{part: "apiserver", folder: "pkg/server/options", not: delegating},
			{part: "kubernetes", folder: "plugin/pkg/admission/defaulttolerationseconds"},
		},
		"kube-controller-manager": {
			{part: "kubernetes", folder: "cmd/kube-controller-manager/app/options"},
			{part: "controller-manager", folder: "options"},
			{part: "controller-manager", folder: "pkg/leadermigration/options"},
			{part: "cloud-provider", folder: "options", not: regexp.MustCompile(`^(CloudControllerManagerOptions|WebhookServingOptions|WebhookOptions|NodeControllerOptions|NodeIPAM)\w*\.`)},
			{part: "apiserver", folder: "pkg/server/options", only: serving},
			lock,
		},
		"kube-scheduler": {
			{part: "kubernetes", folder: "cmd/kube-scheduler/app/options"},
			{part: "apiserver", folder: "pkg/server/options", only: serving},
			lock,
		},
	}
)

type flag struct {
	type_              string
	releases, obsolete span
}

func printFlags() {
	fmt.Printf("# What each component takes as flags: component, name, type of the value, minor releases that have it (of etcd those\n# of 3.x), and those in which it is deprecated. Written by tests/go/accepted from the modules of Kubernetes 1.%s\n# and etcd %s; names, types and releases only.\n",
		strings.Join(releases, " 1."), strings.Join(etcdReleases, " "))
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		found := map[string]*flag{}
		each := releases
		if component == "etcd" {
			each = etcdReleases
		}
		for _, release := range each {
			add(found, component, release)
		}
		var names []string
		for name := range found {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			flag := found[name]
			fmt.Println(strings.TrimSuffix(fmt.Sprintf("%s %s %s %s %s", component, name, flag.type_, flag.releases, flag.obsolete), " -"))
		}
	}
}

func add(found map[string]*flag, component, release string) {
	minor := minorOf(release)
	here := map[string]string{"help": "bool", "version": "value"}
	gone := map[string]bool{}
	if component == "etcd" {
		module := folder("go.etcd.io/etcd/server/v3", "v"+release)
		for _, part := range []string{"embed", "etcdmain"} {
			only := place{only: regexp.MustCompile(`^(newConfig|Config\.AddFlags)$`)}
			reader{component: component}.read(filepath.Join(module, part), only, here, gone)
		}
		if minor >= 6 {
			here["feature-gates"] = "mapStringBool" // added by a registry, since 3.6
		}
	} else {
		for _, place := range append(append([]place{}, places[component]...), everywhere...) {
			reader{component: component}.read(filepath.Join(kubernetes(place.part, release), place.folder), place, here, gone)
		}
	}
	for name, type_ := range here {
		known := found[name]
		if known == nil {
			known = &flag{type_: type_}
			found[name] = known
		}
		known.type_ = type_ // that of the newest release
		known.releases = append(known.releases, minor)
		if gone[name] {
			known.obsolete = append(known.obsolete, minor)
		}
	}
}

// A reader finds the flags of one package.
type reader struct {
	component string
	constants map[string]string
}

func (r reader) read(folder string, place place, found map[string]string, gone map[string]bool) {
	r.constants = map[string]string{}
	var files []*ast.File
	for _, path := range sources(folder) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			fail("%s: %v", path, err)
		}
		files = append(files, file)
		r.learn(file)
	}
	for _, file := range files {
		for _, declared := range file.Decls {
			function, is := declared.(*ast.FuncDecl)
			if !is || function.Body == nil {
				continue
			}
			name := qualified(function)
			if place.only != nil && !place.only.MatchString(name) || place.not != nil && place.not.MatchString(name) {
				continue
			}
			ast.Inspect(function.Body, func(node ast.Node) bool {
				if call, is := node.(*ast.CallExpr); is {
					r.call(call, found, gone)
				}
				return true
			})
		}
	}
}

func qualified(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if pointer, is := receiver.(*ast.StarExpr); is {
		receiver = pointer.X
	}
	if name, is := receiver.(*ast.Ident); is {
		return name.Name + "." + function.Name.Name
	}
	return function.Name.Name
}

// learn notes texts that have a name.
func (r reader) learn(file *ast.File) {
	for _, declared := range file.Decls {
		general, is := declared.(*ast.GenDecl)
		if !is {
			continue
		}
		for _, spec := range general.Specs {
			value, is := spec.(*ast.ValueSpec)
			if !is {
				continue
			}
			for at, name := range value.Names {
				if at < len(value.Values) {
					if texts := r.texts(value.Values[at]); len(texts) == 1 {
						r.constants[name.Name] = texts[0]
					}
				}
			}
		}
	}
}

var methods = map[string]string{
	"StringVar": "string", "BoolVar": "bool", "IntVar": "int", "Int32Var": "int32", "Int64Var": "int64",
	"UintVar": "uint", "Uint32Var": "uint32", "Uint64Var": "uint64", "Float32Var": "float32", "Float64Var": "float64",
	"DurationVar": "duration", "StringSliceVar": "stringSlice", "StringArrayVar": "stringArray", "IPVar": "ip",
	"StringToStringVar": "stringToString", "Int32SliceVar": "int32Slice", "Var": "", "TextVar": "",
}

// Functions that make values of other types, and the form of these values.
var makers = map[string]string{
	"NewMapStringBool": "mapStringBool", "NewMapStringString": "mapStringString", "NewMapStringStringNoSplit": "mapStringString",
	"NewColonSeparatedMultimapStringString":                     "colonSeparatedMultimapStringString",
	"NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey": "colonSeparatedMultimapStringString",
	"NewNamedCertKeyArray":                                      "namedCertKey", "IPVar": "ip", "PortRange": "portRange", "VerbosityLevelPflag": "Level",
	"VModuleConfigurationPflag": "pattern=N,...", "NewUint32Value": "uint32", "NewSelectiveStringValue": "select",
	"NewUniqueURLsWithExceptions": "urls", "NewURLsValue": "urls", "NewStringsValue": "stringSlice", "NewUniqueStringsValue": "stringSlice",
}

func (r reader) call(call *ast.CallExpr, found map[string]string, gone map[string]bool) {
	selector, is := call.Fun.(*ast.SelectorExpr)
	if !is || len(call.Args) < 2 {
		return
	}
	method := selector.Sel.Name
	if method == "MarkDeprecated" {
		for _, name := range r.texts(call.Args[0]) {
			gone[dashed(name)] = true
		}
		return
	}
	if of, is := selector.X.(*ast.Ident); is && of.Name == "globalflag" && method == "Register" {
		for _, name := range r.texts(call.Args[1]) {
			found[dashed(name)] = registered(name)
		}
		return
	}
	type_, known := methods[strings.TrimSuffix(method, "P")]
	if !known {
		return
	}
	if type_ == "" {
		type_ = maker(call.Args[0])
	}
	for _, name := range r.texts(call.Args[1]) {
		found[dashed(name)] = r.form(name, type_)
	}
}

// registered is the type of a flag that another package declares for the whole process, by its name.
func registered(name string) string {
	if strings.HasSuffix(name, "-toleration-seconds") {
		return "int64"
	}
	return "value"
}

// dashed is a name as programs read it: pflag takes both forms.
func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

// form is the type of a value whose source does not say it in one word.
func (r reader) form(name, type_ string) string {
	switch {
	case name == "feature-gates" && type_ == "value":
		return "mapStringBool"
	case name == "v" && type_ == "value":
		return "Level"
	case name == "runtime-config":
		return "mapStringString"
	case name == "service-node-port-range":
		return "portRange"
	case strings.HasSuffix(name, "-info-buffer-size"):
		return "quantity"
	}
	return type_
}

func maker(argument ast.Expr) string {
	form := "value"
	ast.Inspect(argument, func(node ast.Node) bool {
		if name, is := node.(*ast.Ident); is {
			if known, is := makers[name.Name]; is {
				form = known
			}
		}
		return true
	})
	return form
}

// texts are the values that an expression can have.
func (r reader) texts(expression ast.Expr) []string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return []string{text}
		}
	case *ast.Ident:
		if text, known := r.constants[e.Name]; known {
			return []string{text}
		}
	case *ast.BinaryExpr:
		var all []string
		for _, left := range r.texts(e.X) {
			for _, right := range r.texts(e.Y) {
				all = append(all, left+right)
			}
		}
		return all
	case *ast.CallExpr:
		selector, is := e.Fun.(*ast.SelectorExpr)
		if !is || selector.Sel.Name != "Sprintf" || len(e.Args) != 2 {
			return nil
		}
		// The API server's flags of the two ways of its audit.
		var all []string
		for _, format := range r.texts(e.Args[0]) {
			for _, word := range []string{"log", "webhook"} {
				all = append(all, strings.ReplaceAll(format, "%s", word))
			}
		}
		return all
	}
	return nil
}
