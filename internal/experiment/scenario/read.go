package scenario

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"tailscope/internal/strictyaml"
)

// LoadOptions are the values that a file is read with.
type LoadOptions struct {
	Vars     map[string]string // replace those of the file
	ReadFile func(name string) ([]byte, error)
}

// Load reads a scenario. With any problem the scenario is nil, and the problems are
// complete, in the order of lines.
func Load(path string, o LoadOptions) (*Scenario, []strictyaml.Problem) {
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	content, err := o.ReadFile(path)
	if err != nil {
		return nil, []strictyaml.Problem{{File: path, Message: err.Error()}}
	}
	var p strictyaml.Problems
	tree := strictyaml.Parse(path, content, &p, "what several places share goes into vars")
	if tree == nil || p.Len() > 0 {
		return nil, p.Sorted()
	}
	if of := tree.Get("experiment"); of != nil && tree.Get("target") == nil {
		p.Add(of.At, "tailscope experiment run "+path+" runs it", "this is the file of an experiment, not of a scenario")
		return nil, p.Sorted()
	}
	return build(path, tree, o.Vars)
}

// With returns the scenario with other variables.
func (s *Scenario) With(vars map[string]string) (*Scenario, []strictyaml.Problem) {
	all := maps.Clone(s.Vars)
	for name, v := range vars {
		if _, ok := all[name]; !ok {
			return nil, []strictyaml.Problem{unknownVar(s.File, name, s.Vars)}
		}
		all[name] = v
	}
	return build(s.File, s.tree, all)
}

func unknownVar(file, name string, vars map[string]string) strictyaml.Problem {
	hint := strictyaml.Suggest(name, sortedKeys(vars))
	if len(vars) == 0 {
		hint = "the file has none; write vars: {" + name + ": …}"
	}
	return strictyaml.Problem{File: file, Message: "the scenario has no variable " + name, Hint: hint}
}

// Schema returns the JSON Schema (draft 2020-12) of scenarios, for editors.
func Schema() []byte {
	return strictyaml.Schema(reflect.TypeFor[scenarioFile](), strictyaml.SchemaOptions{
		Title: "Tailscope scenario", Leaves: leaves, Else: strictyaml.Pattern(variable.String()),
	})
}

// variable matches {{name}}; names of functions and columns of data look the same.
var variable = regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reader resolves one file.
type reader struct {
	d    *strictyaml.Decoder
	p    strictyaml.Problems
	dir  string
	vars map[string]string
	out  *Scenario
}

// build renders variables, decodes and resolves.
func build(path string, tree *strictyaml.Node, vars map[string]string) (*Scenario, []strictyaml.Problem) {
	r := &reader{dir: filepath.Dir(path), vars: map[string]string{}}
	if abs, err := filepath.Abs(r.dir); err == nil {
		r.dir = abs // commands run there
	}
	r.variables(path, tree.Get("vars"), vars)
	var raw scenarioFile
	r.d = &strictyaml.Decoder{Problems: &r.p, Leaves: leaves, Later: variable.MatchString}
	r.d.Decode("the scenario", r.render(tree), &raw)
	r.out = &raw.Scenario
	r.out.File, r.out.Dir, r.out.Vars, r.out.tree = path, r.dir, r.vars, tree
	r.resolve(&raw)
	if r.p.Len() > 0 {
		return nil, r.p.Sorted()
	}
	return r.out, nil
}

// variables merges the file's variables with those that replace them.
func (r *reader) variables(path string, n *strictyaml.Node, over map[string]string) {
	if n != nil {
		for _, f := range n.Fields {
			if !varName.MatchString(f.Key) {
				r.p.Add(f.At, "write a name of letters, digits and underscores", "%q is not a name of a variable", f.Key)
			}
			if f.Value.Kind == strictyaml.Scalar || f.Value.Kind == strictyaml.Null {
				r.vars[f.Key] = f.Value.Text
			}
		}
	}
	known := maps.Clone(r.vars)
	for _, name := range sortedKeys(over) {
		if _, ok := known[name]; !ok {
			r.p.Put(unknownVar(path, name, known))
			continue
		}
		r.vars[name] = over[name]
	}
}

// render replaces variables. It leaves the texts of requests to package requests:
// there {{name}} may be a column of data, and values are escaped for their place.
func (r *reader) render(tree *strictyaml.Node) *strictyaml.Node {
	return tree.Transform(nil, func(path []string, s *strictyaml.Node) {
		if len(path) == 0 || path[0] == "vars" || ofRequests(path) {
			return
		}
		for from := 0; ; {
			at := variable.FindStringSubmatchIndex(s.Text[from:])
			if at == nil {
				return
			}
			start, end := from+at[0], from+at[1]
			name := s.Text[from+at[2] : from+at[3]]
			v, ok := r.vars[name]
			if !ok {
				hint := strictyaml.Suggest(name, sortedKeys(r.vars))
				if len(r.vars) == 0 {
					hint = "write vars: {" + name + ": …}"
				}
				r.p.Add(s.Within(start), hint, "unknown variable {{%s}}", name)
				return
			}
			s.Replace(start, end-start, v)
			from = start + len(v)
		}
	})
}

// ofRequests reports whether package requests renders a text.
func ofRequests(path []string) bool {
	switch path[0] {
	case "header":
		return true
	case "queries":
		if len(path) > 2 {
			switch path[2] {
			case "request", "header", "body":
				return true
			}
		}
	}
	return false
}

// path returns a file's name relative to the scenario's.
func (r *reader) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.dir, name)
}

// failed notes an error of a field.
func (r *reader) failed(field any, err error) {
	message, hint := parted(err)
	r.d.Wrong(field, hint, "%s", message)
}

func sortedKeys[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }

// address returns the whole URL of a request.
func (r *reader) address(request *string) (method, whole string) {
	if !r.d.OK(request) {
		return "", ""
	}
	method, target, _ := strings.Cut(*request, " ")
	if strings.Contains(target, "://") || r.out.Target == nil {
		return method, target
	}
	u, err := url.Parse(target)
	if err != nil {
		r.d.Wrong(request, "", "%v", err)
		return method, ""
	}
	return method, strings.TrimSuffix(r.out.Target.String(), "/") + u.String()
}
