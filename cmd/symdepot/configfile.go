package main

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// configError is something wrong in a configuration, with the place where it
// stands.
type configError struct {
	file string
	line int // 0: nowhere in particular
	key  string
	what string
}

func (e *configError) Error() string {
	at := e.file
	if e.line > 0 {
		at += ":" + strconv.Itoa(e.line)
	}
	if e.key == "" {
		return at + ": " + e.what
	}
	return at + ": " + e.key + ": " + e.what
}

// size is a number of bytes; in text with a unit.
type size int64

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

const wantSize = "a size is expected, such as 500MB, 20GiB or a number of bytes"

// UnmarshalText reads a size.
func (s *size) UnmarshalText(text []byte) error {
	t, unit := strings.TrimSpace(string(text)), 1.0
	for _, u := range sizeUnits {
		if len(t) > len(u.name) && strings.EqualFold(t[len(t)-len(u.name):], u.name) {
			t, unit = strings.TrimSpace(t[:len(t)-len(u.name)]), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(t, 64)
	if err != nil || n < 0 || math.IsNaN(n) || n*unit >= 1<<62 {
		return errors.New(wantSize)
	}
	*s = size(n * unit)
	return nil
}

// String is a form that UnmarshalText reads.
func (s size) String() string {
	for _, u := range []struct {
		name  string
		bytes size
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText is the inverse of UnmarshalText.
func (s size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// span is a length of time; in text it may be in days.
type span time.Duration

const wantSpan = "a time is expected, such as 300ms, 10s, 5m, 24h or 7d"

// UnmarshalText reads a span.
func (s *span) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	if days, ok := strings.CutSuffix(t, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 || !(n < 36500) {
			return errors.New(wantSpan)
		}
		*s = span(n * 24 * float64(time.Hour))
		return nil
	}
	d, err := time.ParseDuration(t)
	if err != nil || d < 0 {
		return errors.New(wantSpan)
	}
	*s = span(d)
	return nil
}

// String is a form that UnmarshalText reads.
func (s span) String() string {
	const day = 24 * time.Hour
	switch d := time.Duration(s); {
	case d >= 2*day && d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d >= time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	default:
		return d.String()
	}
}

// MarshalText is the inverse of UnmarshalText.
func (s span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// key is one key of the configuration, by reflection.
type key struct {
	path  string // upstreams[].timeouts.idle
	field reflect.StructField
}

// yamlName is what a field is called in the file; empty: not at all.
func yamlName(f reflect.StructField) string { return f.Tag.Get("yaml") }

// structKeys lists the keys of a struct.
func structKeys(t reflect.Type) []string {
	var list []string
	for f := range t.Fields() {
		if n := yamlName(f); n != "" {
			list = append(list, n)
		}
	}
	return list
}

// shorthand is a struct that may stand in the file as one text too.
type shorthand interface{ fromText(text string) error }

// decoder fills structs from the nodes of a file, strictly.
type decoder struct {
	file string
	errs []error
}

func (d *decoder) fail(n *yaml.Node, key, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	d.errs = append(d.errs, &configError{d.file, line, key, fmt.Sprintf(format, args...)})
}

// decodeConfig reads a file's content into a struct. All that is wrong is told
// at once.
func decodeConfig(file string, r io.Reader, into any) error {
	d := &decoder{file: file}
	var doc, more yaml.Node
	dec := yaml.NewDecoder(r)
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil // an empty file
	case err != nil:
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		e := &configError{file: file, what: text}
		if rest, ok := strings.CutPrefix(text, "line "); ok {
			if n, what, ok := strings.Cut(rest, ": "); ok {
				if e.line, err = strconv.Atoi(n); err == nil {
					e.what = what
				}
			}
		}
		e.what += "; YAML is expected"
		return e
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return &configError{file: file, line: more.Line, what: "one document is expected, not several"}
	}
	if len(doc.Content) > 0 {
		d.value(doc.Content[0], reflect.ValueOf(into).Elem(), "", reflect.StructField{})
	}
	return errors.Join(d.errs...)
}

// value sets one value. field is the one that it belongs to, for what its tags
// say.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key string, field reflect.StructField) {
	if n.Kind == yaml.AliasNode {
		d.fail(n, key, "aliases are not taken; write it out")
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // a key without a value keeps its default
	}
	if v.Kind() == reflect.Pointer {
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
		d.fail(n, key, "%s, not a %s", expected(v.Type(), field), map[yaml.Kind]string{yaml.SequenceNode: "list", yaml.MappingNode: "map"}[n.Kind])
	default:
		if err := setScalar(v, n.Value, field); err != nil {
			shown := strconv.Quote(n.Value)
			if field.Tag.Get("secret") != "" {
				shown = "what stands there"
			}
			d.fail(n, key, "%v, not %s", err, shown)
		}
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind == yaml.ScalarNode {
		if s, ok := v.Addr().Interface().(shorthand); ok {
			if err := s.fromText(n.Value); err != nil {
				d.fail(n, key, "%v", err)
			}
			return
		}
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, key, "a map is expected, with keys such as %s", strings.Join(head(structKeys(v.Type()), 6), ", "))
		return
	}
	if l, ok := v.Addr().Interface().(interface{ setLine(int) }); ok {
		l.setLine(n.Line)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, at := n.Content[i].Value, n.Content[i]
		field, ok := fieldNamed(v.Type(), name)
		switch {
		case !ok:
			d.fail(at, join(key, name), "no such key; known are %s", strings.Join(structKeys(v.Type()), ", "))
		case seen[name]:
			d.fail(at, join(key, name), "it stands there twice")
		default:
			d.value(n.Content[i+1], v.FieldByIndex(field.Index), join(key, name), field)
		}
		seen[name] = true
	}
}

func head(list []string, n int) []string { return list[:min(n, len(list))] }

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if n := yamlName(f); n != "" && n == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, key string, field reflect.StructField) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, key, "%s, each behind a hyphen", expected(v.Type(), field))
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
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		at := reflect.ValueOf(name)
		if m.MapIndex(at).IsValid() {
			d.fail(n.Content[i], join(key, name), "it stands there twice")
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], item, join(key, name), field)
		m.SetMapIndex(at, item)
	}
	v.Set(m)
}

// expected says what a type is written like.
func expected(t reflect.Type, field reflect.StructField) string {
	if words := field.Tag.Get("enum"); words != "" && t.Kind() == reflect.String {
		return "one of " + strings.ReplaceAll(words, ",", ", ") + " is expected"
	}
	switch t {
	case reflect.TypeFor[size]():
		return wantSize
	case reflect.TypeFor[span]():
		return wantSpan
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

// setScalar sets a text, number or truth value, or a list of texts separated by
// commas.
func setScalar(v reflect.Value, text string, field reflect.StructField) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	want := errors.New(expected(v.Type(), field))
	switch v.Kind() {
	case reflect.String:
		if words := field.Tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, ","), text) {
			return want
		}
		v.SetString(text)
	case reflect.Bool:
		b, ok := map[string]bool{"true": true, "yes": true, "on": true, "1": true, "false": false, "no": false, "off": false, "0": false}[strings.ToLower(text)]
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

// isScalar reports whether a value can stand in an environment variable.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.String
	}
	return false
}

// eachScalar calls do for every value of a struct that can stand in an
// environment variable, nested maps included, lists of maps not.
func eachScalar(v reflect.Value, path string, do func(path string, v reflect.Value, f reflect.StructField)) {
	for f := range v.Type().Fields() {
		name := yamlName(f)
		if name == "" {
			continue
		}
		switch at := v.FieldByIndex(f.Index); {
		case isScalar(f.Type):
			do(join(path, name), at, f)
		case f.Type.Kind() == reflect.Struct:
			eachScalar(at, join(path, name), do)
		}
	}
}

// envName is the variable that overrides a key.
func envName(path string) string {
	return "SYMDEPOT_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, path)
}

// allKeys lists every key of a struct, in its order; those of list items under
// name[].
func allKeys(t reflect.Type, path string) []key {
	var list []key
	for f := range t.Fields() {
		name := yamlName(f)
		if name == "" {
			continue
		}
		at := join(path, name)
		list = append(list, key{at, f})
		switch {
		case f.Type.Kind() == reflect.Struct:
			list = append(list, allKeys(f.Type, at)...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			list = append(list, allKeys(f.Type.Elem(), at+"[]")...)
		}
	}
	return list
}

// typeWords says in words what type a key has.
func (k key) typeWords() string {
	t := k.field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if words := k.field.Tag.Get("enum"); words != "" {
		return strings.ReplaceAll(words, ",", ", ")
	}
	switch t {
	case reflect.TypeFor[size]():
		return "size"
	case reflect.TypeFor[span]():
		return "time"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list of maps"
		}
		return "list of texts"
	case reflect.Map:
		if t.Elem() == reflect.TypeFor[size]() {
			return "map of sizes"
		}
		if t.Elem().Kind() == reflect.Slice {
			return "map of lists"
		}
		return "map of texts"
	case reflect.Struct:
		return "map"
	}
	return "text"
}

// hasValue reports whether a key has a value of its own, not only keys below it.
func (k key) hasValue() bool { return k.field.Type.Kind() != reflect.Struct }
