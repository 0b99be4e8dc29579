package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/internal/config"
	"tailscope/internal/strictyaml"
)

// settings holds the settings of a command. Those that are written daily have a flag.
// --set key=value gives the others, under their key in the command's file if it has one.
type settings struct {
	flags *pflag.FlagSet // of the command
	own   *pflag.FlagSet // the command's settings without a flag, by key

	config  *overrides // settings of the configuration; nil for none
	section string     // that keys of these begin with; empty for all

	texts []string // --set, as it was given
}

// register registers the flags named in daily, and --set for the others and for settings
// of the configuration.
func (s *settings) register(cmd *cobra.Command, all *pflag.FlagSet, example string, daily ...string) {
	s.flags, s.own = cmd.Flags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.own.SortFlags = false
	all.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(daily, f.Name) {
			s.flags.AddFlag(f)
			return
		}
		k := *f
		k.Name, k.Shorthand = settingKey(f.Name), ""
		s.own.AddFlag(&k)
	})
	s.addFlag(s.flags, example)
	for _, fs := range []*pflag.FlagSet{s.flags, s.own} {
		fs.VisitAll(func(f *pflag.Flag) {
			if b, ok := f.Value.(*boundFlag); ok {
				b.called = s.called(f.Name)
			}
			f.Usage = flagNamed.ReplaceAllStringFunc(f.Usage, func(flag string) string {
				if name, own := strings.CutPrefix(flag, "--"); own {
					return s.called(name)
				}
				return flag
			})
		})
	}
	if list := s.list(); list != "" {
		cmd.Long += "\n\nSettings of --set key=value:\n" + list
	}
}

// flagNamed finds flags in a text, with the command if it is of another.
var flagNamed = regexp.MustCompile(`(tailscope [a-z ]+)?--[a-z][a-z-]*`)

func (s *settings) addFlag(fs *pflag.FlagSet, example string) {
	fs.Var(s, "set", "any setting by its key, such as "+example+"; may be given several times")
}

// list returns each setting without a flag, in the form in which help lists flags.
func (s *settings) list() string {
	var b strings.Builder
	for line := range strings.Lines(s.own.FlagUsagesWrapped(helpWidth + len(dashesOfHelp) - 2)) {
		line = strings.TrimPrefix(line, dashesOfHelp)
		b.WriteString("  " + strings.TrimPrefix(line, strings.Repeat(" ", len(dashesOfHelp))))
	}
	return strings.TrimRight(b.String(), "\n")
}

// dashesOfHelp stand before the name of a flag.
const dashesOfHelp = "      --"

// settingKey returns the key of a setting from the name of its flag.
func settingKey(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// given reports whether the user named a setting, by its flag or by its key.
func (s *settings) given(name string) bool {
	if s.own.Lookup(settingKey(name)) != nil {
		return s.own.Changed(settingKey(name))
	}
	return s.flags.Changed(name)
}

// called returns the name of a setting as users write it: --level, or --set level.
func (s *settings) called(name string) string {
	if s.own.Lookup(settingKey(name)) != nil {
		return "--set " + settingKey(name)
	}
	return "--" + name
}

// visit calls f for each setting that was given, with the name of its flag or key.
func (s *settings) visit(f func(name string)) {
	s.flags.Visit(func(fl *pflag.Flag) {
		if fl.Name != "set" {
			f(fl.Name)
		}
	})
	s.own.Visit(func(fl *pflag.Flag) { f(fl.Name) })
}

// Set applies one key=value. Its errors name the key.
func (s *settings) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q has no value: write key=value", text)
	}
	if err := s.setKey(key, value); err != nil {
		return err
	}
	if s.own == nil || s.own.Lookup(key) != nil { // a flag is named as one
		s.texts = append(s.texts, text)
	}
	return nil
}

func (s *settings) setKey(key, value string) error {
	if key == "" {
		return fmt.Errorf("%q has no key: write key=value", "="+value)
	}
	f, c, err := s.find(key)
	switch {
	case err != nil:
		return err
	case f == nil:
		err = (&overrideFlag{all: s.config, setting: c}).Set(value)
	case s.own.Lookup(f.Name) == f:
		err = setFlag(s.own, f, value)
	default:
		err = setFlag(s.flags, f, value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// setFlag sets a flag from a text as files have it: yes is true, 2d is 48h.
func setFlag(fs *pflag.FlagSet, f *pflag.Flag, text string) error {
	if _, ok := f.Value.(*boundFlag); !ok { // which reads all that files have
		var err error
		if text, err = plainValue(f.Value.Type(), text); err != nil {
			return err
		}
	}
	err := fs.Set(f.Name, text)
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalid.Unwrap() // the caller names the key
	}
	return err
}

// plainValue returns a text of a file as pflag reads it. Its errors show what a value of
// the type looks like.
func plainValue(typ, text string) (plain string, err error) {
	switch typ {
	case "bool":
		var v strictyaml.Bool
		if err = v.ReadText(text); err == nil {
			text = strconv.FormatBool(bool(v))
		}
	case "duration":
		if _, wrong := time.ParseDuration(text); wrong != nil {
			var v strictyaml.Duration
			err = v.ReadText(text)
			text = time.Duration(v).String()
		}
	case "int":
		if _, wrong := strconv.Atoi(text); wrong != nil {
			err = fmt.Errorf("%q is not a whole number: write one such as 8", text)
		}
	case "uint64":
		if _, wrong := strconv.ParseUint(text, 10, 64); wrong != nil {
			err = fmt.Errorf("%q is not a whole number of 0 or more: write one such as 8", text)
		}
	case "float64":
		if _, wrong := strconv.ParseFloat(text, 64); wrong != nil {
			err = fmt.Errorf("%q is not a number: write one such as 0.5", text)
		}
	}
	return text, err
}

func (s *settings) String() string { return "" }
func (s *settings) Type() string   { return "key=value" }

// find returns the flag that a key names, whether the command shows it or not, or else
// the setting of the configuration.
func (s *settings) find(key string) (*pflag.Flag, config.Setting, error) {
	if s.own != nil {
		if f := s.own.Lookup(key); f != nil {
			return f, config.Setting{}, nil
		}
		if f := s.flags.Lookup(dashed.Replace(key)); f != nil && key != "set" {
			return f, config.Setting{}, nil
		}
	}
	if s.config != nil && strings.HasPrefix(key, s.section) {
		if c, err := config.Find(key); err == nil || s.own == nil {
			return nil, c, err
		}
	}
	hint := "--help lists the keys"
	if near, ok := strictyaml.Nearest(key, s.keys()); ok {
		hint = "did you mean " + near + "?"
	}
	return nil, config.Setting{}, fmt.Errorf("unknown key %s: %s", key, hint)
}

// dashed writes a key as flags are written.
var dashed = strings.NewReplacer(".", "-", "_", "-")

// keys returns the keys that --set accepts.
func (s *settings) keys() (keys []string) {
	if s.own != nil {
		s.own.VisitAll(func(f *pflag.Flag) { keys = append(keys, f.Name) })
		s.flags.VisitAll(func(f *pflag.Flag) {
			if f.Name != "set" {
				keys = append(keys, settingKey(f.Name))
			}
		})
	}
	if s.config != nil {
		for _, c := range config.Settings {
			if strings.HasPrefix(c.Key, s.section) {
				keys = append(keys, c.Key)
			}
		}
	}
	return keys
}

// formerFlags maps former flags to settings whose key has another name.
var formerFlags = map[string]string{
	"http2": "protocol=HTTP/2", "no-keepalive": "keep_alive=false",
	"insecure": "tls.insecure=true", "k": "tls.insecure=true", "cacert": "tls.ca=…", "c": "connections=…",
	"measured-at": "leaves.shards=…", "every": "leaves.every=…", "fixed": "leaves.fixed=…", "together": "leaves.together=…", "waits": "leaves.waits=…",
	"price": "layout.price=…",
}

// replacement returns the text to write in place of an unknown flag, empty if no setting
// ever had that name.
func (s *settings) replacement(fs *pflag.FlagSet, flag string) string {
	plain := dashed.Replace(flag)
	if fs.Lookup(plain) != nil {
		return "--" + plain
	}
	if short, ok := strings.CutPrefix(plain, "mirror-"); ok {
		if f := fs.Lookup(short); f != nil {
			if o, ok := f.Value.(*overrideFlag); ok && o.setting.Key == keyOf(short) {
				return "--" + short
			}
		}
	}
	keys := s.keys()
	if text := formerFlags[flag]; text != "" {
		if key, _, _ := strings.Cut(text, "="); slices.Contains(keys, key) {
			return "--set " + text
		}
	}
	for _, key := range keys {
		if name := dashed.Replace(key); name == plain || name == "mirror-"+plain {
			return "--set " + key + "=…"
		}
	}
	return ""
}

// flagError describes what is wrong with a flag, and names the replacement of one that is
// a setting now.
func flagError(cmd *cobra.Command, err error) error {
	var wrong usage
	if errors.As(err, &wrong) {
		return wrong // a bound flag has said it all
	}
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	if f := cmd.Flags().Lookup("set"); f != nil && errors.As(err, &unknown) {
		if s, ok := f.Value.(*settings); ok {
			if text := s.replacement(cmd.Flags(), unknown.GetSpecifiedName()); text != "" {
				dashes := "--"
				if unknown.GetSpecifiedShortnames() != "" {
					dashes = "-"
				}
				return fmt.Errorf("%s%s is not a flag of %s; use %s", dashes, unknown.GetSpecifiedName(), strings.TrimPrefix(cmd.CommandPath(), "tailscope "), text)
			}
		}
	}
	if errors.As(err, &invalid) {
		f := invalid.GetFlag()
		_, clear := f.Value.(*overrideFlag)
		if _, wrong := plainValue(f.Value.Type(), invalid.GetValue()); wrong != nil && !clear {
			err = fmt.Errorf("--%s: %w", f.Name, wrong)
		}
	}
	return withHint(err, "%s --help lists the flags", cmd.CommandPath())
}
