// Clients is what programs written in Go see of a server: an informer, or a controller manager, that
// says each thing it learns in one line. tests/real/golang.rs runs it, changes objects and reads the lines.
//
// It ends when its standard input does.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	// controller-runtime has a flag of that name among the global ones.
	flags := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the server")
	_ = flags.Parse(os.Args[1:])
	if err := run(flags.Arg(0), *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what, kubeconfig string) error {
	switch what {
	case "classify":
		return classify()
	case "proxies":
		return proxies()
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	programs := map[string]func(context.Context, *rest.Config) error{
		"typed":   informTyped,
		"dynamic": informDynamic,
		"manager": manage,
		"elector": elect,
	}
	program, known := programs[what]
	if !known {
		return fmt.Errorf("unknown program %q", what)
	}
	return program(ctx, config)
}

var output sync.Mutex

// say prints one line at a time, whole.
func say(format string, words ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", words...)
}
