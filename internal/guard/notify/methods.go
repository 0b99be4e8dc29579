package notify

import (
	"fmt"
	"math"
	"reflect"
	"text/template/parse"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

// Go's text/template calls methods by names that only the user knows, for which the
// linker keeps every exported method of the whole program: 9 MB. The package used here is
// the same without methods. The values of an event have methods by package time
// alone, so a call of one becomes a call of a function when the template is parsed:
// {{.Time.Format "15:04"}} is run as {{method "Format" .Time "15:04"}}.

// methods holds the methods that a template may call, as method expressions: those that
// return a value, or a value and an error.
var methods = methodsOf(
	methodTable[time.Time]{
		"Add": time.Time.Add, "AddDate": time.Time.AddDate, "After": time.Time.After, "AppendBinary": time.Time.AppendBinary,
		"AppendFormat": time.Time.AppendFormat, "AppendText": time.Time.AppendText, "Before": time.Time.Before, "Compare": time.Time.Compare,
		"Day": time.Time.Day, "Equal": time.Time.Equal, "Format": time.Time.Format, "GoString": time.Time.GoString,
		"GobEncode": time.Time.GobEncode, "Hour": time.Time.Hour, "In": time.Time.In, "IsDST": time.Time.IsDST, "IsZero": time.Time.IsZero,
		"Local": time.Time.Local, "Location": time.Time.Location, "MarshalBinary": time.Time.MarshalBinary,
		"MarshalJSON": time.Time.MarshalJSON, "MarshalText": time.Time.MarshalText, "Minute": time.Time.Minute, "Month": time.Time.Month,
		"Nanosecond": time.Time.Nanosecond, "Round": time.Time.Round, "Second": time.Time.Second, "String": time.Time.String,
		"Sub": time.Time.Sub, "Truncate": time.Time.Truncate, "UTC": time.Time.UTC, "Unix": time.Time.Unix, "UnixMicro": time.Time.UnixMicro,
		"UnixMilli": time.Time.UnixMilli, "UnixNano": time.Time.UnixNano, "Weekday": time.Time.Weekday, "Year": time.Time.Year,
		"YearDay": time.Time.YearDay,
	},
	methodTable[time.Duration]{
		"Abs": time.Duration.Abs, "Hours": time.Duration.Hours, "Microseconds": time.Duration.Microseconds,
		"Milliseconds": time.Duration.Milliseconds, "Minutes": time.Duration.Minutes, "Nanoseconds": time.Duration.Nanoseconds,
		"Round": time.Duration.Round, "Seconds": time.Duration.Seconds, "String": time.Duration.String, "Truncate": time.Duration.Truncate,
	},
	methodTable[time.Month]{"String": time.Month.String},
	methodTable[time.Weekday]{"String": time.Weekday.String},
	methodTable[*time.Location]{"String": (*time.Location).String},
)

// methodTable holds the methods of T by name.
type methodTable[T any] map[string]any

func (m methodTable[T]) addTo(all map[reflect.Type]map[string]reflect.Value) {
	byName := map[string]reflect.Value{}
	for name, f := range m {
		byName[name] = reflect.ValueOf(f)
	}
	all[reflect.TypeFor[T]()] = byName
}

func methodsOf(tables ...interface {
	addTo(map[reflect.Type]map[string]reflect.Value)
}) map[reflect.Type]map[string]reflect.Value {
	all := map[reflect.Type]map[string]reflect.Value{}
	for _, t := range tables {
		t.addTo(all)
	}
	return all
}

func isMethod(name string) bool {
	for _, byName := range methods {
		if byName[name].IsValid() {
			return true
		}
	}
	return false
}

const methodFunc = "method"

// callMethod returns what the method returns. Where the receiver does not have it, the name is
// that of a label: {{.Labels.String}}.
func callMethod(name string, receiver reflect.Value, args ...reflect.Value) (reflect.Value, error) {
	for receiver.Kind() == reflect.Interface {
		receiver = receiver.Elem()
	}
	if !receiver.IsValid() {
		return receiver, fmt.Errorf("nil has no %s", name)
	}
	f := methods[receiver.Type()][name]
	if !f.IsValid() {
		return field(name, receiver, len(args))
	}
	t := f.Type()
	if want := t.NumIn() - 1; len(args) != want {
		return receiver, fmt.Errorf("%s of %s takes %d arguments, got %d", name, receiver.Type(), want, len(args))
	}
	in := []reflect.Value{receiver}
	for i, arg := range args {
		v, ok := argument(arg, t.In(i+1))
		if !ok {
			return receiver, fmt.Errorf("argument %d of %s: write a %s, not %v", i+1, name, t.In(i+1), arg)
		}
		in = append(in, v)
	}
	out := f.Call(in)
	if len(out) == 2 && !out[1].IsNil() {
		return out[0], out[1].Interface().(error)
	}
	return out[0], nil
}

func field(name string, of reflect.Value, args int) (reflect.Value, error) {
	if of.Kind() != reflect.Map || of.Type().Key().Kind() != reflect.String {
		return of, fmt.Errorf("%s is not a field or method of type %s", name, of.Type())
	}
	if args > 0 {
		return of, fmt.Errorf("%s is a label here and takes no arguments", name)
	}
	if v := of.MapIndex(reflect.ValueOf(name).Convert(of.Type().Key())); v.IsValid() {
		return v, nil
	}
	return reflect.Zero(of.Type().Elem()), nil
}

// argument returns v as a parameter of type t takes it. A number in a template is of
// no type of its own.
func argument(v reflect.Value, t reflect.Type) (reflect.Value, bool) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
		return reflect.Zero(t), t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice
	case v.Type().AssignableTo(t):
		return v, true
	case !reflect.Zero(t).CanInt():
		return v, false
	case v.CanInt():
		return v.Convert(t), !v.Convert(t).OverflowInt(v.Int())
	case v.CanFloat() && v.Float() == math.Trunc(v.Float()) && math.Abs(v.Float()) < 1<<62:
		return v.Convert(t), true
	}
	return v, false
}

// withMethods makes the calls of methods in t, and in the templates it defines, calls of callMethod.
func withMethods(t *template.Template) *template.Template {
	for _, defined := range t.Templates() {
		if defined.Tree != nil && defined.Tree.Root != nil {
			callMethods(defined.Tree.Root)
		}
	}
	return t.Funcs(template.FuncMap{methodFunc: callMethod})
}

func callMethods(n parse.Node) {
	branch := func(b *parse.BranchNode) {
		callMethods(b.Pipe)
		callMethods(b.List)
		callMethods(b.ElseList)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, below := range n.Nodes {
				callMethods(below)
			}
		}
	case *parse.ActionNode:
		callMethods(n.Pipe)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.TemplateNode:
		callMethods(n.Pipe)
	case *parse.PipeNode:
		if n != nil {
			for _, c := range n.Cmds {
				callMethods(c)
			}
		}
	case *parse.CommandNode:
		_, inParentheses := n.Args[0].(*parse.PipeNode)
		for i, arg := range n.Args {
			n.Args[i] = operand(arg)
		}
		if call, ok := n.Args[0].(*parse.PipeNode); ok && !inParentheses { // the arguments are the method's
			n.Args = append(call.Cmds[0].Args, n.Args[1:]...)
		}
	}
}

// operand returns n with calls of methods in place of their names.
func operand(n parse.Node) parse.Node {
	var names []string
	var from parse.Node
	switch n := n.(type) {
	case *parse.PipeNode:
		callMethods(n)
		return n
	case *parse.FieldNode:
		from, names = &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Pos}, n.Ident
	case *parse.VariableNode:
		from, names = &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: n.Ident[:1:1]}, n.Ident[1:]
	case *parse.ChainNode:
		n.Node = operand(n.Node)
		from, names = n.Node, n.Field
	default:
		return n
	}
	begin := 0
	for i, name := range names {
		if !isMethod(name) {
			continue
		}
		from = call(name, fields(from, names[begin:i], n))
		begin = i + 1
	}
	if begin == 0 {
		return n
	}
	return fields(from, names[begin:], n)
}

// fields returns the node for fields of another at the place of n.
func fields(of parse.Node, names []string, n parse.Node) parse.Node {
	if len(names) == 0 {
		return of
	}
	switch of := of.(type) {
	case *parse.DotNode:
		return &parse.FieldNode{NodeType: parse.NodeField, Pos: n.Position(), Ident: names}
	case *parse.VariableNode:
		return &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Position(), Ident: append(of.Ident, names...)}
	}
	return &parse.ChainNode{NodeType: parse.NodeChain, Pos: n.Position(), Node: of, Field: names}
}

func call(name string, receiver parse.Node) *parse.PipeNode {
	pos := receiver.Position()
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{{NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{
		parse.NewIdentifier(methodFunc).SetPos(pos),
		&parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: fmt.Sprintf("%q", name), Text: name},
		receiver,
	}}}}
}
