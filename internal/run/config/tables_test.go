package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// manualTables returns the part of docs/config.md that is generated from the
// tags.
func manualTables() string {
	var b strings.Builder
	section := func(title, about string, t reflect.Type, path string) {
		fmt.Fprintf(&b, "### %s\n\n", title)
		if about != "" {
			b.WriteString(about + "\n\n")
		}
		b.WriteString("| Key | Type | Default | Example | Meaning |\n|---|---|---|---|---|\n")
		for f := range t.Fields() {
			if yamlName(f) == "" || isSection(f.Type) {
				continue
			}
			k := key{joinKey(path, yamlName(f)), f}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.path, k.typeWords(), code(f.Tag.Get("default")), code(exampleText(f)), strings.ReplaceAll(helpOf(k.path), "|", `\|`))
		}
		b.WriteString("\n")
	}
	section("General", "", reflect.TypeFor[Config](), "")
	for _, k := range allKeys(reflect.TypeFor[Config](), "") {
		switch t := k.field.Type; {
		case !isSection(t):
		case t.Kind() == reflect.Struct:
			section("`"+k.path+"`", helpOf(k.path), t, k.path)
		default:
			section("`"+k.path+"[]`", helpOf(k.path), t.Elem(), k.path+"[]")
		}
	}
	b.WriteString("### Presets\n\n| Preset | Address | Layout | Rank | Requested | Executables |\n|---|---|---|---|---|---|\n")
	for _, p := range upstream.Presets {
		var kinds []string
		for _, k := range p.Guard.Kinds {
			kinds = append(kinds, k.String())
		}
		asked := strings.Join(kinds, ", ")
		if p.Guard.RequiresChecksum {
			asked += ", only with a checksum"
		}
		if len(p.Guard.NamePatterns) > 0 {
			asked += ", names " + code(strings.Join(p.Guard.NamePatterns, " "))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %s | %v |\n", p.Preset, p.URL, p.Layout, p.Guard.Rank, asked, map[bool]string{true: "yes", false: "no"}[p.Guard.Executables])
	}
	return b.String()
}

// isSection reports whether a key of this type is a map, or a list of maps, which has a
// section of its own.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// exampleText returns an example of a key without a default, as in a file.
func exampleText(f reflect.StructField) string {
	e := f.Tag.Get("example")
	if e == "" || f.Tag.Get("default") != "" {
		return ""
	}
	return yamlText(f, e)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
