package server

import (
	"reflect"
	"strings"
	"testing"

	"tailscope/internal/config"
	"tailscope/internal/experiment/mirror"
)

// A section that says nothing has the defaults of the mirror itself.
func TestMirrorDefaults(t *testing.T) {
	if got, want := MirrorOptions(config.Default().Mirror), mirror.Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestMirrorOptions(t *testing.T) {
	c := config.Default()
	if errs := c.File("f.yaml", []byte(`mirror:
  listen: 127.0.0.1:0
  primary: http://a:1
  control: http://c:1, http://d:1
  candidate: ["http://b:1,http://b:2", "next = https://n", "http://odd?a=b"]
  path: ^/a
  rewrite: ^/a=/b
`)); errs != nil {
		t.Fatal(errs)
	}
	o := MirrorOptions(c.Mirror)
	want := []mirror.Pool{{Servers: []string{"http://b:1", "http://b:2"}}, {Name: "next", Servers: []string{"https://n"}}, {Servers: []string{"http://odd?a=b"}}}
	if !reflect.DeepEqual(o.Candidates, want) || !reflect.DeepEqual(o.Control, []string{"http://c:1", "http://d:1"}) ||
		o.Path != "^/a" || !reflect.DeepEqual(o.Rewrites, []string{"^/a=/b"}) {
		t.Errorf("got %+v", o)
	}
	err := o.Validate()
	if err == nil || !strings.Contains(err.Error(), "has a query") {
		t.Errorf("got %v", err)
	}
}

// Every setting of the section reaches the options.
func TestMirrorOptionsLoseNothing(t *testing.T) {
	full := config.Mirror{}
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case []string:
			f.Set(reflect.ValueOf([]string{"x"}))
		default:
			switch f.Kind() {
			case reflect.String:
				f.SetString("x")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Float64:
				f.SetFloat(2)
			default:
				f.SetInt(3)
			}
		}
	}
	o := reflect.ValueOf(MirrorOptions(full))
	for i := range o.NumField() {
		switch name := o.Type().Field(i).Name; name {
		case "ID", "Paused", "Sink", "Report", "OnHeader", "Log":
		default:
			if o.Field(i).IsZero() {
				t.Errorf("nothing sets %s", name)
			}
		}
	}
}
