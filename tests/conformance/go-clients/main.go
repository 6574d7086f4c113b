// Go programs against Drover's APIs, written on what Go programs are written on: client-go and controller-runtime.
//
// "clients" lists, watches, creates, patches and deletes every kind of a hub as clients, informers and controllers of the
// Go world do it, prints a line for each thing it tried and ends with 1 when one failed.
// "addon-manager" and "addon-agent" are the two halves of an add-on that knows nothing of Drover: all that it has in common
// with it is the API.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  go-clients clients --kubeconfig FILE [NAME...]
  go-clients addon-manager --kubeconfig FILE [--image IMAGE]
  go-clients addon-agent --hub-kubeconfig FILE --cluster-name NAME --namespace NAMESPACE --addon-name NAME`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	programs := map[string]func(context.Context, []string) error{
		"clients":       clients,
		"addon-manager": addonManager,
		"addon-agent":   addonAgent,
	}
	program, known := programs[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	// Told to stop is how the programs that run for ever end.
	if err := program(ctx, os.Args[2:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
