package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/manual"
	"github.com/symdepot/symdepot/layout"
)

// Manual returns a configuration file with every key commented out. Lines that
// begin with "# " are text, all others are keys.
func Manual() string {
	var b strings.Builder
	b.WriteString(`# Configuration of symdepot. Each key is commented out and shows its default, or an example if it has
# no default. Remove the # of the keys to change. Flags override SYMDEPOT_* of the environment, which
# override this file.
`)
	b.WriteString("# Sizes: 500MB, 20GiB. Durations: 300ms, 10s, 5m, 24h, 7d.\n")
	manualKeys(&b, reflect.TypeFor[Config](), "", "", "")
	b.WriteString("\n# Presets:\n")
	for _, p := range upstream.Presets {
		fmt.Fprintf(&b, "# - %s, %s\n", p.Preset, p.URL)
	}
	return b.String()
}

// manualKeys writes the keys of a struct, which are below path.
func manualKeys(b *strings.Builder, t reflect.Type, path, indent, hyphen string) {
	for f := range t.Fields() {
		name := yamlName(f)
		if name == "" {
			continue
		}
		if indent == "" {
			b.WriteString("\n")
		}
		for _, line := range wrapText(helpOf(joinKey(path, name)), 100) {
			b.WriteString("# " + line + "\n")
		}
		at := "#" + indent
		if hyphen != "" {
			at, hyphen = "#"+indent[2:]+"- ", ""
		}
		switch {
		case f.Type.Kind() == reflect.Struct:
			b.WriteString(at + name + ":\n")
			manualKeys(b, f.Type, joinKey(path, name), indent+"  ", "")
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			b.WriteString(at + name + ":\n")
			manualKeys(b, f.Type.Elem(), joinKey(path, name)+"[]", indent+"    ", "- ")
		default:
			value := f.Tag.Get("default")
			if value == "" {
				value = f.Tag.Get("example")
			}
			b.WriteString(at + name + ": " + yamlText(f, value) + "\n")
		}
	}
}

// helpText says what each key means; see manual.Texts.
//
//go:embed help.txt
var helpText string

// help has the meaning of each key by its path.
var help = sync.OnceValue(func() map[string]string { return manual.Texts(helpText) })

// helpOf returns the meaning of a key. In the text, {layouts} stands for the known layouts.
func helpOf(path string) string {
	return strings.ReplaceAll(help()[path], "{layouts}", layoutNames())
}

// layoutNames lists the layouts that an upstream may have.
func layoutNames() string {
	servers, folders := layout.Servers(), layout.Folders()
	var names []string
	for _, l := range servers {
		name := l.Name()
		if l != layout.Auto && !slices.Contains(folders, l) {
			name += " (servers)"
		}
		names = append(names, name)
	}
	for _, l := range folders {
		if !slices.Contains(servers, l) {
			names = append(names, l.Name()+" (folders)")
		}
	}
	return strings.Join(names, ", ")
}

// yamlText returns the value of a tag as YAML.
func yamlText(f reflect.StructField, value string) string {
	if f.Type.Kind() != reflect.String {
		return value
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return value
	}
	return strings.TrimSpace(string(text))
}

func wrapText(s string, width int) []string {
	var lines []string
	line := ""
	for w := range strings.FieldsSeq(s) {
		if line != "" && len(line)+1+len(w) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}
