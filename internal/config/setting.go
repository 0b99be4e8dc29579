package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tailscope/internal/strictyaml"
)

// Setting describes one setting, for every source that can set it.
type Setting struct {
	Key string // in the file; sections are joined by dots
	Doc string // one sentence

	is    string // the name of its leaf
	flag  bool
	index []int // index of its field in Config
}

// Env returns the setting's environment variable.
func (s Setting) Env() string {
	return "TAILSCOPE_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Flag returns the setting's flag, without the dashes.
func (s Setting) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
}

// HasFlag reports whether tailscope serve has a flag for the setting. The file, the
// environment or --set set the others.
func (s Setting) HasFlag() bool { return s.flag }

// Value returns the value of the setting in c.
func (s Setting) Value(c *Config) Value {
	v := reflect.ValueOf(c).Elem().FieldByIndex(s.index)
	if items, ok := v.Addr().Interface().(*[]string); ok {
		return list{value{items, s.is}}
	}
	return value{v.Addr().Interface(), s.is}
}

// Settings lists every setting, in the order in which they are documented: those of
// the server, then those of a mirror.
var Settings = settingsOf(reflect.TypeFor[Config](), "", nil)

// MirrorSettings lists the settings of the section mirror.
func MirrorSettings() []Setting { return Settings[serverSettings():] }

// serverSettings returns the number of settings before those of a mirror.
func serverSettings() int {
	return slices.IndexFunc(Settings, func(s Setting) bool { return strings.HasPrefix(s.Key, "mirror.") })
}

// code replaces ‘text’ by Markdown code; tags cannot hold a backtick.
var code = strings.NewReplacer("‘", "`", "’", "`")

func settingsOf(t reflect.Type, prefix string, index []int) (out []Setting) {
	for _, w := range strictyaml.KeysOf(t) {
		at := slices.Concat(index, w.Index)
		switch {
		case w.Type.Kind() == reflect.Struct:
			out = append(out, settingsOf(w.Type, prefix+w.Key+".", at)...)
		case w.Type == reflect.TypeFor[[]AccessLog](): // only the file can set a list of mappings
		default:
			out = append(out, Setting{prefix + w.Key, code.Replace(w.Doc), w.Is, w.Tag.Get("flag") != "", at})
		}
	}
	return out
}

// Find returns the setting with that key. The error names the nearest key.
func Find(key string) (Setting, error) {
	var keys []string
	for _, s := range Settings {
		if s.Key == key {
			return s, nil
		}
		keys = append(keys, s.Key)
	}
	hint := strictyaml.Suggest(key, keys)
	for _, k := range keys {
		if strings.HasSuffix(k, "."+key) {
			hint = "did you mean " + k + "?"
			break
		}
	}
	if hint == "" {
		hint = "docs/configuration.md lists every setting"
	}
	return Setting{}, fmt.Errorf("unknown key %s: %s", key, hint)
}

// File sets c from the text of a YAML file. It returns all errors, each of the form
// name:line:column: message.
func (c *Config) File(name string, content []byte) (errs []error) {
	var p strictyaml.Problems
	if n := strictyaml.Parse(name, content, &p, "write it out"); n != nil {
		d := &strictyaml.Decoder{Problems: &p, Leaves: leaves, Over: true}
		d.Decode("the file", n, c)
	}
	for _, found := range p.Sorted() {
		errs = append(errs, found)
	}
	return errs
}

// Schema returns a JSON Schema of the file, for editors.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[Config](), strictyaml.SchemaOptions{Title: "Tailscope configuration", Leaves: leaves, Over: true})
}

// Environ sets c from TAILSCOPE_* variables, in the form of os.Environ. It ignores
// variables that are not settings: orchestrators invent some (TAILSCOPE_PORT for a
// service of that name), and clients have their own.
func (c *Config) Environ(environ []string) []error {
	vars := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	var errs []error
	for _, s := range Settings {
		v, ok := vars[s.Env()]
		if !ok {
			continue
		}
		if err := s.Value(c).Set(v); err != nil {
			errs = append(errs, fmt.Errorf("environment: %s: %w", s.Env(), err))
		}
	}
	return errs
}

// YAML returns a file that sets every setting to its value in c.
func (c *Config) YAML() string { return strictyaml.Write(c, leaves) }
