package config

import (
	"reflect"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// key is one key of the configuration, found by reflection.
type key struct {
	path  string // for example upstreams[].timeout
	field reflect.StructField
}

// yamlName returns the name of a field in the file; it is empty if the field is
// not a key.
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

func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if n := yamlName(f); n != "" && n == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func head(list []string, n int) []string { return list[:min(n, len(list))] }

func joinKey(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// isScalar reports whether an environment variable can hold a value of this
// type.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.String
	}
	return false
}

// eachScalar calls do for every value that an environment variable can set,
// including those in nested maps but not those in lists of maps.
func eachScalar(v reflect.Value, path string, do func(path string, v reflect.Value, f reflect.StructField)) {
	for f := range v.Type().Fields() {
		name := yamlName(f)
		if name == "" {
			continue
		}
		switch at := v.FieldByIndex(f.Index); {
		case isScalar(f.Type):
			do(joinKey(path, name), at, f)
		case f.Type.Kind() == reflect.Struct:
			eachScalar(at, joinKey(path, name), do)
		}
	}
}

// envName returns the variable that overrides a key: SYMDEPOT_LOG_FORMAT for
// log.format.
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

// allKeys lists all keys of a struct in order, with the keys of list items below
// name[].
func allKeys(t reflect.Type, path string) []key {
	var list []key
	for f := range t.Fields() {
		name := yamlName(f)
		if name == "" {
			continue
		}
		at := joinKey(path, name)
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

// typeWords returns the name of a key's type.
func (k key) typeWords() string {
	t := k.field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if words := k.field.Tag.Get("enum"); words != "" {
		return strings.ReplaceAll(words, ",", ", ")
	}
	switch t {
	case reflect.TypeFor[term.ByteSize]():
		return "size"
	case reflect.TypeFor[term.Duration]():
		return "duration"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Slice:
		return "list"
	case reflect.Map:
		if t.Elem() == reflect.TypeFor[term.ByteSize]() {
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

// hasValue reports whether a key has a value itself, not only keys below it.
func (k key) hasValue() bool { return k.field.Type.Kind() != reflect.Struct }
