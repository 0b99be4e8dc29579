// Command tailscope measures every request, keeps the whole distribution, and
// shows where the tail is. Everything it does is in internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"tailscope/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once asked to stop, a second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
