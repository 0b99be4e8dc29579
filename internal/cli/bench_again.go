package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/internal/experiment/mirror/redact"
)

// benchAgain returns the command line that repeats a run: the argument and flags as they
// were given, without those of reports, and the seed if there is one. Reports show it, so
// it leaves out secrets of header fields.
func benchAgain(cmd *cobra.Command, set *settings, arg string, seed uint64) string {
	parts := []string{cmd.CommandPath()}
	if arg != "" {
		parts = append(parts, shellWord(arg))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "output", "report", "quiet", "seed":
			return
		case "set":
			for _, text := range set.texts {
				if !strings.HasPrefix(text, "seed=") {
					parts = append(parts, "--set", shellWord(text))
				}
			}
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if f.Name == "header" {
				v = withoutSecret(v)
			}
			if f.Value.Type() == "bool" {
				if v == "true" {
					parts = append(parts, "--"+f.Name)
				} else {
					parts = append(parts, "--"+f.Name+"="+v)
				}
				continue
			}
			parts = append(parts, "--"+f.Name, shellWord(v))
		}
	})
	if seed != 0 {
		flag, separator := "--seed", " "
		if set.called("seed") != flag {
			flag, separator = "--set seed", "="
		}
		parts = append(parts, flag+separator+fmt.Sprint(seed))
	}
	return strings.Join(parts, " ")
}

// withoutSecret returns Name: value with … for a value that should not be shown, such as
// that of Authorization.
func withoutSecret(field string) string {
	name, value, ok := strings.Cut(field, ":")
	r, err := redact.New(nil)
	if value = strings.TrimSpace(value); !ok || err != nil || r.Header(strings.TrimSpace(name), value) == value {
		return field
	}
	return name + ": …"
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
