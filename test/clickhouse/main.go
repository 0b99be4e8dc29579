// Command clickhouse runs today's ClickHouse as a server, for tests: out of libchdb.so,
// which npm distributes and which holds the server's HTTP and native interfaces. It runs
// clickhouse-local with the arguments that follow the library, and until it is killed: the
// query in them reads a standard input that never ends. See program.StartCurrentClickHouse.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: clickhouse libchdb.so [argument of clickhouse-local]...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(library string, args []string) error {
	input, never, err := os.Pipe()
	if err != nil {
		return err
	}
	if err := syscall.Dup3(int(input.Fd()), 0, 0); err != nil {
		return err
	}
	defer never.Close()
	runtime.LockOSThread()
	h, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	// chdb_result *chdb_query_cmdline(int argc, char **argv)
	var query func(argc int32, argv unsafe.Pointer) uintptr
	// const char *chdb_result_error(chdb_result *)
	var failure func(result uintptr) string
	purego.RegisterLibFunc(&query, h, "chdb_query_cmdline")
	purego.RegisterLibFunc(&failure, h, "chdb_result_error")
	args = append([]string{"clickhouse"}, args...)
	argv := make([]*byte, len(args)+1) // ends in nil
	for i, a := range args {
		b := append([]byte(a), 0)
		argv[i] = &b[0]
	}
	result := query(int32(len(args)), unsafe.Pointer(&argv[0]))
	runtime.KeepAlive(argv)
	if text := failure(result); text != "" {
		return fmt.Errorf("%s", text)
	}
	return nil
}
