package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// benchAgain is the command line that makes such a run again: the arguments and
// flags as they were given, but for where reports went, and the seed if there
// is one.
func benchAgain(cmd *cobra.Command, args []string, seed uint64) string {
	parts := []string{cmd.CommandPath()}
	for _, a := range args {
		parts = append(parts, shellWord(a))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "output", "report", "quiet", "seed":
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if f.Value.Type() == "bool" {
				parts = append(parts, "--"+f.Name+"="+v)
				continue
			}
			parts = append(parts, "--"+f.Name, shellWord(v))
		}
	})
	if seed != 0 {
		parts = append(parts, "--seed", fmt.Sprint(seed))
	}
	return strings.Join(parts, " ")
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
