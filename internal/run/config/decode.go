package config

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Error is a fault in the configuration, with its location.
type Error struct {
	File string // the file, or "environment"
	Line int    // 0: unknown
	Key  string // for example upstreams[0].rank; empty: the whole file
	What string
}

// Error implements error: FILE:LINE: KEY: WHAT.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Key == "" {
		return at + ": " + e.What
	}
	return at + ": " + e.Key + ": " + e.What
}

// shorthand is a struct that may also be written as one text.
type shorthand interface{ fromText(text string) error }

// parse parses the YAML of a file into its document node, nil if the file is
// empty. Its errors are of type *Error.
func parse(file string, r io.Reader) (*yaml.Node, error) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(r)
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		e := &Error{File: file, What: strings.TrimPrefix(err.Error(), "yaml: ")}
		if rest, ok := strings.CutPrefix(e.What, "line "); ok {
			if n, what, ok := strings.Cut(rest, ": "); ok {
				if line, err := strconv.Atoi(n); err == nil {
					e.Line, e.What = line, what
				}
			}
		}
		e.What += "; YAML is expected"
		return nil, e
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &Error{File: file, Line: more.Line, What: "one document is expected, not several"}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// decoder fills structs from YAML nodes. The decoder of the yaml package is not
// sufficient: its errors name neither the path of a key nor the known keys, and
// it stops at the first type error. The tags are read by reflection in any case,
// for the defaults, the environment and the manual.
type decoder struct {
	file string
	errs []error
}

func (d *decoder) fail(n *yaml.Node, key, format string, args ...any) {
	d.errs = append(d.errs, &Error{d.file, n.Line, key, fmt.Sprintf(format, args...)})
}

// value decodes one node into v. field carries the tags of the key.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key string, field reflect.StructField) {
	switch {
	case n.Kind == yaml.AliasNode:
		d.fail(n, key, "aliases are not supported; repeat the value")
		return
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return // a key without a value keeps its default
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), key, field)
		v.Set(p)
		return
	}
	_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case v.Kind() == reflect.Struct && !isText:
		d.structure(n, v, key)
	case v.Kind() == reflect.Slice:
		d.list(n, v, key, field)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, key, field)
	case n.Kind != yaml.ScalarNode:
		d.fail(n, key, "%s, not a %s", expected(v.Type(), field),
			map[yaml.Kind]string{yaml.SequenceNode: "list", yaml.MappingNode: "map"}[n.Kind])
	default:
		if err := setScalar(v, n.Value, field); err != nil {
			shown := strconv.Quote(n.Value)
			if field.Tag.Get("secret") != "" {
				shown = "the given value"
			}
			d.fail(n, key, "%v, not %s", err, shown)
		}
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, key string) {
	if s, ok := v.Addr().Interface().(shorthand); ok && n.Kind == yaml.ScalarNode {
		if err := s.fromText(n.Value); err != nil {
			d.fail(n, key, "%v", err)
		}
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, key, "a map is expected, with keys such as %s", strings.Join(head(structKeys(v.Type()), 6), ", "))
		return
	}
	if l, ok := v.Addr().Interface().(interface{ setLine(int) }); ok {
		l.setLine(n.Line)
	}
	seen := map[string]bool{}
	for name, at := range pairs(n) {
		k := joinKey(key, name.Value)
		field, ok := fieldNamed(v.Type(), name.Value)
		switch {
		case !ok:
			hint := term.NearestOrAll(name.Value, structKeys(v.Type()), nil)
			if k == "retention" {
				hint = ": the retention policy is a file of its own, which symdepot policy set FILE sets"
			}
			d.fail(name, k, "no such key%s", hint)
		case seen[name.Value]:
			d.fail(name, k, "the key is set twice")
		default:
			d.value(at, v.FieldByIndex(field.Index), k, field)
		}
		seen[name.Value] = true
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, key string, field reflect.StructField) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, key, "%s, with a hyphen before each item", expected(v.Type(), field))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.value(c, list.Index(i), fmt.Sprintf("%s[%d]", key, i), field)
	}
	v.Set(list)
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, key string, field reflect.StructField) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, key, "%s", expected(v.Type(), field))
		return
	}
	m := reflect.MakeMap(v.Type())
	for name, at := range pairs(n) {
		k := reflect.ValueOf(name.Value)
		if m.MapIndex(k).IsValid() {
			d.fail(name, joinKey(key, name.Value), "the key is set twice")
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(at, item, joinKey(key, name.Value), field)
		m.SetMapIndex(k, item)
	}
	v.Set(m)
}

// pairs yields the keys and values of a map node.
func pairs(n *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// expected describes the syntax of a type.
func expected(t reflect.Type, field reflect.StructField) string {
	if words := field.Tag.Get("enum"); words != "" && t.Kind() == reflect.String {
		if !strings.Contains(words, ",") {
			return words + " is expected"
		}
		return "one of " + strings.ReplaceAll(words, ",", ", ") + " is expected"
	}
	switch t {
	case reflect.TypeFor[term.ByteSize]():
		return term.SizeSyntax
	case reflect.TypeFor[term.Duration]():
		return term.DurationSyntax
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false is expected"
	case reflect.Int, reflect.Int64:
		return "a whole number is expected"
	case reflect.Slice:
		return "a list is expected"
	case reflect.Map, reflect.Struct:
		return "a map is expected"
	}
	return "text is expected"
}

var truths = map[string]bool{"true": true, "yes": true, "on": true, "1": true, "false": false, "no": false, "off": false, "0": false}

// setScalar sets a text, a number, a truth value or a comma-separated list of
// texts.
func setScalar(v reflect.Value, text string, field reflect.StructField) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err := u.UnmarshalText([]byte(text))
		switch v.Type() {
		case reflect.TypeFor[term.ByteSize](), reflect.TypeFor[term.Duration]():
			if err != nil { // the callers add what is there instead
				return errors.New(expected(v.Type(), field))
			}
		}
		return err
	}
	want := errors.New(expected(v.Type(), field))
	switch v.Kind() {
	case reflect.String:
		if words := field.Tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, ","), text) {
			return want
		}
		v.SetString(text)
	case reflect.Bool:
		b, ok := truths[strings.ToLower(text)]
		if !ok {
			return want
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return want
		}
		v.SetInt(n)
	case reflect.Slice:
		var list []string
		for s := range strings.SplitSeq(text, ",") {
			if s = strings.TrimSpace(s); s != "" {
				list = append(list, s)
			}
		}
		v.Set(reflect.ValueOf(list))
	default:
		return want
	}
	return nil
}
