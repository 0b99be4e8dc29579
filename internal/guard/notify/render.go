package notify

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

// renderer executes a parsed text/template on an event, and does what its Execute does, but for
// calling any method of any type by name. The linker of a program that may do that keeps every
// method of every type, an eighth of this one. So moments and durations have the methods
// that method lists, and nothing else in the data has any.
type renderer struct {
	w     io.Writer
	t     *template.Template
	names []variable
	depth int
}

type variable struct {
	name  string
	value any
}

const mostDepth = 100 // of templates within templates

var errBreak, errContinue = errors.New("break outside of range"), errors.New("continue outside of range")

// render writes a template with data.
func render(w io.Writer, t *template.Template, data any) error {
	r := &renderer{w: w, t: t, names: []variable{{"$", data}}}
	return r.list(data, t.Root)
}

func (r *renderer) list(dot any, l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := r.node(dot, n); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) node(dot any, n parse.Node) error {
	switch n := n.(type) {
	case *parse.TextNode:
		_, err := r.w.Write(n.Text)
		return err
	case *parse.ActionNode:
		v, err := r.pipe(dot, n.Pipe)
		if err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		return r.print(v)
	case *parse.IfNode:
		return r.branch(dot, &n.BranchNode)
	case *parse.WithNode:
		return r.branch(dot, &n.BranchNode)
	case *parse.RangeNode:
		return r.loop(dot, n)
	case *parse.TemplateNode:
		return r.nested(dot, n)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	case *parse.CommentNode:
		return nil
	}
	return fmt.Errorf("%s: a node of another kind", n)
}

func (r *renderer) print(v any) error {
	if v == nil {
		v = "<no value>"
	}
	_, err := fmt.Fprint(r.w, v)
	return err
}

// branch is an if or, with dot set to what is looked at, a with.
func (r *renderer) branch(dot any, n *parse.BranchNode) error {
	defer r.forget(len(r.names))
	v, err := r.pipe(dot, n.Pipe)
	if err != nil {
		return err
	}
	if truth, _ := template.IsTrue(v); !truth {
		return r.list(dot, n.ElseList)
	}
	if n.NodeType == parse.NodeWith {
		dot = v
	}
	return r.list(dot, n.List)
}

// loop goes over labels, by name.
func (r *renderer) loop(dot any, n *parse.RangeNode) error {
	defer r.forget(len(r.names))
	v, err := r.pipe(dot, n.Pipe)
	if err != nil {
		return err
	}
	labels, ok := v.(map[string]string)
	if !ok && v != nil {
		return fmt.Errorf("range can't iterate over %v", v)
	}
	if len(labels) == 0 {
		return r.list(dot, n.ElseList)
	}
	inner := len(r.names)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		of := []any{labels[key]}
		if len(n.Pipe.Decl) > 1 {
			of = []any{key, labels[key]}
		}
		for i, d := range n.Pipe.Decl {
			if err := r.set(d.Ident[0], of[i]); err != nil {
				return err
			}
		}
		err := r.list(labels[key], n.List)
		r.forget(inner)
		if errors.Is(err, errBreak) {
			return nil
		}
		if err != nil && !errors.Is(err, errContinue) {
			return err
		}
	}
	return nil
}

func (r *renderer) nested(dot any, n *parse.TemplateNode) error {
	t := r.t.Lookup(n.Name)
	if t == nil {
		return fmt.Errorf("template %q is not defined", n.Name)
	}
	if r.depth == mostDepth {
		return fmt.Errorf("template %q: more than %d templates within each other", n.Name, mostDepth)
	}
	var data any
	if n.Pipe != nil {
		var err error
		if data, err = r.pipe(dot, n.Pipe); err != nil {
			return err
		}
	}
	inner := &renderer{w: r.w, t: t, names: []variable{{"$", data}}, depth: r.depth + 1}
	return inner.list(data, t.Root)
}

// forget drops the variables that were declared since there were n.
func (r *renderer) forget(n int) { r.names = r.names[:n] }

// set gives a variable that is declared another value.
func (r *renderer) set(name string, v any) error {
	for i := range slices.Backward(r.names) {
		if r.names[i].name == name {
			r.names[i].value = v
			return nil
		}
	}
	return fmt.Errorf("undefined variable: %s", name)
}

func (r *renderer) variable(name string) (any, error) {
	for _, v := range slices.Backward(r.names) {
		if v.name == name {
			return v.value, nil
		}
	}
	return nil, fmt.Errorf("undefined variable: %s", name)
}

// pipe returns the value of a pipeline, and declares or sets its variables.
func (r *renderer) pipe(dot any, p *parse.PipeNode) (v any, err error) {
	var piped []any
	for _, c := range p.Cmds {
		if v, err = r.command(dot, c, piped); err != nil {
			return nil, err
		}
		piped = []any{v}
	}
	for _, d := range p.Decl {
		if !p.IsAssign {
			r.names = append(r.names, variable{d.Ident[0], v})
		} else if err := r.set(d.Ident[0], v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// command returns the value of one command of a pipeline, given what the one before it handed on.
func (r *renderer) command(dot any, c *parse.CommandNode, piped []any) (any, error) {
	if c.Args[0].Type() == parse.NodeNil {
		return nil, errors.New("nil is not a command")
	}
	v, err := r.called(dot, c.Args[0], c.Args[1:], piped)
	if err != nil && !errors.As(err, new(located)) {
		err = located{fmt.Errorf("at <%s>: %w", c, err)}
	}
	return v, err
}

// located is an error that says where in the template it is.
type located struct{ error }

func (l located) Unwrap() error { return l.error }

// called returns the value of a node that may be a function or method with arguments.
func (r *renderer) called(dot any, n parse.Node, args []parse.Node, piped []any) (any, error) {
	if f, ok := n.(*parse.IdentifierNode); ok {
		return r.function(dot, f.Ident, args, piped)
	}
	given := make([]any, 0, len(args)+len(piped))
	for _, a := range args {
		v, err := r.called(dot, a, nil, nil)
		if err != nil {
			return nil, err
		}
		given = append(given, v)
	}
	given = append(given, piped...)
	switch n := n.(type) {
	case *parse.FieldNode:
		return chain(dot, n.Ident, given)
	case *parse.ChainNode:
		v, err := r.called(dot, n.Node, nil, nil)
		if err != nil {
			return nil, err
		}
		return chain(v, n.Field, given)
	case *parse.VariableNode:
		v, err := r.variable(n.Ident[0])
		if err != nil {
			return nil, err
		}
		return chain(v, n.Ident[1:], given)
	}
	if len(given) > 0 {
		return nil, fmt.Errorf("can't give argument to non-function %s", n)
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		return r.pipe(dot, n)
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return nil, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		if n.IsInt && (!n.IsFloat || !strings.ContainsAny(n.Text, ".eEpP") || strings.HasPrefix(n.Text, "0x") || strings.HasPrefix(n.Text, "'")) {
			return int(n.Int64), nil
		}
		if n.IsFloat {
			return n.Float64, nil
		}
	}
	return nil, fmt.Errorf("%s cannot be read here", n)
}

// chain follows fields from a value; arguments go to the last.
func chain(v any, names []string, args []any) (any, error) {
	if len(names) == 0 && len(args) > 0 {
		return nil, errors.New("can't give argument to non-function")
	}
	for i, name := range names {
		var given []any
		if i == len(names)-1 {
			given = args
		}
		var err error
		if v, err = field(v, name, given); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// field returns a field of the event, a label, or what a method of a moment or a duration returns.
func field(v any, name string, args []any) (any, error) {
	var out any
	switch v := v.(type) {
	case templateData:
		f := reflect.ValueOf(v).FieldByName(name)
		if !f.IsValid() {
			return nil, fmt.Errorf("there is no field %s of an event", name)
		}
		out = f.Interface()
	case map[string]string:
		out = v[name]
	case time.Time, time.Duration:
		return method(v, name, args)
	default:
		return nil, fmt.Errorf("can't evaluate field %s in type %T", name, v)
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("%s has arguments but is not a method", name)
	}
	return out, nil
}

// method calls a method of time.Time or time.Duration.
func method(v any, name string, args []any) (any, error) {
	switch f := methods(v)[name].(type) {
	case func(string) string:
		return apply(f, name, args)
	case func(time.Time) time.Duration:
		return apply(f, name, args)
	case func(time.Time) bool:
		return apply(f, name, args)
	case func() any:
		if len(args) > 0 {
			return nil, fmt.Errorf("wrong number of args for %s: want 0 got %d", name, len(args))
		}
		return f(), nil
	}
	return nil, fmt.Errorf("%T has no %s here: see docs/checks.md", v, name)
}

func apply[A, B any](f func(A) B, name string, args []any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("wrong number of args for %s: want 1 got %d", name, len(args))
	}
	a, ok := args[0].(A)
	if !ok {
		return nil, fmt.Errorf("wrong type for value of %s; expected %T; got %T", name, *new(A), args[0])
	}
	return f(a), nil
}

func methods(v any) map[string]any {
	switch v := v.(type) {
	case time.Time:
		return map[string]any{
			"Format": v.Format, "Sub": v.Sub, "Before": v.Before, "After": v.After, "Equal": v.Equal,
			"UTC": func() any { return v.UTC() }, "Local": func() any { return v.Local() }, "String": func() any { return v.String() }, "IsZero": func() any { return v.IsZero() },
			"Unix": func() any { return v.Unix() }, "UnixMilli": func() any { return v.UnixMilli() },
			"Year": func() any { return v.Year() }, "Month": func() any { return v.Month() }, "Day": func() any { return v.Day() }, "Weekday": func() any { return v.Weekday() },
			"Hour": func() any { return v.Hour() }, "Minute": func() any { return v.Minute() }, "Second": func() any { return v.Second() },
		}
	case time.Duration:
		return map[string]any{
			"String": func() any { return v.String() }, "Milliseconds": func() any { return v.Milliseconds() },
			"Seconds": func() any { return v.Seconds() }, "Minutes": func() any { return v.Minutes() }, "Hours": func() any { return v.Hours() },
		}
	}
	return nil
}

// function calls one of text/template's functions, or of ours.
func (r *renderer) function(dot any, name string, nodes []parse.Node, piped []any) (any, error) {
	args := make([]any, 0, len(nodes)+len(piped))
	for i := range len(nodes) + len(piped) {
		if i < len(nodes) {
			v, err := r.called(dot, nodes[i], nil, nil)
			if err != nil {
				return nil, err
			}
			args = append(args, v)
		} else {
			args = append(args, piped[i-len(nodes)])
		}
		if name == "and" || name == "or" { // the others are not looked at
			if truth, _ := template.IsTrue(args[i]); truth == (name == "or") {
				return args[i], nil
			}
		}
	}
	most := map[string]int{"not": 1, "len": 1, "json": 1, "upper": 1, "lower": 1, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2}
	least := map[string]int{"and": 1, "or": 1, "index": 1, "slice": 1, "printf": 1, "eq": 2}
	if n, ok := most[name]; ok && len(args) != n || len(args) < least[name] {
		return nil, fmt.Errorf("wrong number of args for %s: %d", name, len(args))
	}
	switch name {
	case "and", "or":
		return args[len(args)-1], nil
	case "not":
		truth, _ := template.IsTrue(args[0])
		return !truth, nil
	case "len":
		return lengthOf(args[0])
	case "index":
		return indexed(args[0], args[1:])
	case "slice":
		return sliced(args[0], args[1:])
	case "print":
		return fmt.Sprint(args...), nil
	case "println":
		return fmt.Sprintln(args...), nil
	case "printf":
		format, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("wrong type for the format of printf: %T", args[0])
		}
		return fmt.Sprintf(format, args[1:]...), nil
	case "html":
		return template.HTMLEscaper(args...), nil
	case "js":
		return template.JSEscaper(args...), nil
	case "urlquery":
		return template.URLQueryEscaper(args...), nil
	case "eq":
		for _, other := range args[1:] {
			if same, err := equal(args[0], other); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case "ne":
		same, err := equal(args[0], args[1])
		return !same, err
	case "lt", "le", "gt", "ge":
		return ordered(name, args[0], args[1])
	case "json":
		b, err := json.Marshal(args[0])
		return string(b), err
	case "upper":
		return apply(strings.ToUpper, name, args)
	case "lower":
		return apply(strings.ToLower, name, args)
	}
	return nil, fmt.Errorf("%s is not a function here", name)
}

func lengthOf(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return len(v), nil
	case map[string]string:
		return len(v), nil
	}
	return nil, fmt.Errorf("len of type %T", v)
}

func indexed(v any, keys []any) (any, error) {
	for _, key := range keys {
		switch of := v.(type) {
		case map[string]string:
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("cannot index labels with type %T", key)
			}
			v = of[name]
		case string:
			i, ok := key.(int)
			if !ok || i < 0 || i >= len(of) {
				return nil, fmt.Errorf("index out of range: %v", key)
			}
			v = of[i]
		default:
			return nil, fmt.Errorf("can't index item of type %T", v)
		}
	}
	return v, nil
}

func sliced(v any, bounds []any) (any, error) {
	s, ok := v.(string)
	if !ok || len(bounds) > 2 {
		return nil, fmt.Errorf("can't slice item of type %T by %d bounds", v, len(bounds))
	}
	at := []int{0, len(s)}
	for i, b := range bounds {
		n, ok := b.(int)
		if !ok || n < 0 || n > len(s) {
			return nil, fmt.Errorf("index out of range: %v", b)
		}
		at[i] = n
	}
	if at[0] > at[1] {
		return nil, fmt.Errorf("invalid slice index: %d > %d", at[0], at[1])
	}
	return s[at[0]:at[1]], nil
}

// basic returns a value by its kind: a number, a text or a truth, as text/template compares them.
func basic(v any) any {
	switch r := reflect.ValueOf(v); {
	case v == nil:
		return nil
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		return int64(r.Uint())
	case r.CanFloat():
		return r.Float()
	}
	return v
}

func equal(a, b any) (bool, error) {
	a, b = basic(a), basic(b)
	if a == nil || b == nil {
		return a == b, nil
	}
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false, errors.New("incompatible types for comparison")
	}
	if !reflect.TypeOf(a).Comparable() {
		return false, fmt.Errorf("non-comparable type %T", a)
	}
	return a == b, nil
}

func ordered(name string, a, b any) (bool, error) {
	c := 0
	switch a := basic(a).(type) {
	case string:
		b, ok := basic(b).(string)
		if !ok {
			return false, errors.New("incompatible types for comparison")
		}
		c = strings.Compare(a, b)
	case int64:
		b, ok := basic(b).(int64)
		if !ok {
			return false, errors.New("incompatible types for comparison")
		}
		c = cmp.Compare(a, b)
	case float64:
		b, ok := basic(b).(float64)
		if !ok {
			return false, errors.New("incompatible types for comparison")
		}
		c = cmp.Compare(a, b)
	default:
		return false, errors.New("invalid type for comparison")
	}
	return map[string]bool{"lt": c < 0, "le": c <= 0, "gt": c > 0, "ge": c >= 0}[name], nil
}
