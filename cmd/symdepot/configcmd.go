package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/upstream"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Check a configuration file and say what it comes to."`
	Print configPrintCmd `cmd:"" help:"Print a configuration file with every key, its default and what it means."`

	FromSymcacheSample configSymCacheSampleCmd `cmd:"" name:"from-symcache-sample" help:"Print a configuration made of the settings of Microsoft's sample SymCache server."`
}

type configCheckCmd struct {
	JSON bool   `help:"Print one JSON object."`
	File string `arg:"" optional:"" help:"The file. Default: SYMDEPOT_CONFIG, or symdepot.yaml here if there is one."`
}

// Help is the long help text.
func (configCheckCmd) Help() string {
	return `Reads a configuration as serve and proxy would, SYMDEPOT_* of the environment included, and prints every source
with what it comes to. Secrets are not shown. Nothing is connected to.

Exit codes: 0 it can be used, 1 there are faults (printed with file, line and key), 3 it cannot be read.`
}

// Run checks a configuration.
func (c configCheckCmd) Run(a *app) error {
	path := configPath(c.File, os.Getenv)
	conf, err := loadConfig(path, os.Getenv)
	if fault := (*configError)(nil); errors.As(err, &fault) {
		fmt.Fprintln(a.stderr, err)
		return term.ErrNo
	}
	if err != nil {
		return err
	}
	return conf.report(a.stdout, a.stderr, c.JSON)
}

// configPath is the configuration file to read: the one named, or the one that
// the environment names, or symdepot.yaml in this folder; empty if there is none.
func configPath(named string, getenv func(string) string) string {
	if named != "" {
		return named
	}
	if p := getenv("SYMDEPOT_CONFIG"); p != "" {
		return p
	}
	if isFile("symdepot.yaml") {
		return "symdepot.yaml"
	}
	return ""
}

// resolved is a source with every value, as it will be used.
type resolved struct {
	Name        string            `yaml:"name" json:"name"`
	Preset      string            `yaml:"preset,omitempty" json:"preset,omitempty"`
	Type        string            `yaml:"type" json:"type"`
	Address     string            `yaml:"address" json:"address"`
	Rank        int               `yaml:"rank" json:"rank"`
	Layout      string            `yaml:"layout" json:"layout"`
	Casing      string            `yaml:"casing" json:"casing"`
	TwoTier     string            `yaml:"two_tier" json:"two_tier"`
	Kinds       []string          `yaml:"kinds,flow,omitempty" json:"kinds,omitempty"`
	Names       []string          `yaml:"names,flow,omitempty" json:"names,omitempty"`
	IDs         []string          `yaml:"ids,flow,omitempty" json:"ids,omitempty"`
	NeverAsk    []string          `yaml:"never_ask,flow,omitempty" json:"never_ask,omitempty"`
	Executables bool              `yaml:"executables" json:"executables"`
	Checksum    bool              `yaml:"requires_checksum,omitempty" json:"requires_checksum,omitempty"`
	Forbidden   bool              `yaml:"forbidden_is_absent,omitempty" json:"forbidden_is_absent,omitempty"`
	Compressed  bool              `yaml:"compressed" json:"compressed"`
	Pointers    bool              `yaml:"pointers" json:"pointers"`
	UserAgent   string            `yaml:"user_agent,omitempty" json:"user_agent,omitempty"`
	Headers     []string          `yaml:"headers,flow,omitempty" json:"headers,omitempty"` // names only
	Credentials string            `yaml:"credentials" json:"credentials"`
	Concurrency int               `yaml:"concurrency" json:"concurrency"`
	MaxBytes    string            `yaml:"max_bytes" json:"max_bytes"`
	Timeouts    map[string]string `yaml:"timeouts,flow" json:"timeouts"`
	Breaker     map[string]string `yaml:"breaker,flow" json:"breaker"`
}

// orDefault is a value, or the default that the tag of a key of an upstream tells.
func orDefault[T comparable](value T, shown string, key string) string {
	var zero T
	if value != zero {
		return shown
	}
	for _, k := range allKeys(reflect.TypeFor[upstreamEntry](), "") {
		if k.path == key {
			return k.field.Tag.Get("default")
		}
	}
	return shown
}

func resolve(s upstream.Spec) resolved {
	g, t := s.Guard, s.Timeouts
	r := resolved{
		Name: s.Name, Preset: s.Preset, Type: s.Type, Address: s.Shown(), Rank: g.Rank, Executables: g.Executables, Checksum: g.RequiresChecksum,
		Forbidden: s.Forbidden403, Compressed: !s.NoCompressed, Pointers: !s.NoPointers && s.Type != upstream.TypeBucket, UserAgent: s.UserAgent,
		Names: g.NamePatterns, IDs: g.IDs, NeverAsk: g.NeverAsk,
		Layout: orDefault(s.Layout, s.Layout, "layout"), Casing: orDefault(s.Casing, s.Casing, "casing"), TwoTier: orDefault(s.TwoTier, s.TwoTier, "two_tier"),
		MaxBytes: orDefault(g.MaxBytes, size(g.MaxBytes).String(), "max_bytes"),
		Timeouts: map[string]string{
			"connect": orDefault(t.Connect, span(t.Connect).String(), "timeouts.connect"), "header": orDefault(t.Header, span(t.Header).String(), "timeouts.header"),
			"idle": orDefault(t.Idle, span(t.Idle).String(), "timeouts.idle"),
		},
		Breaker: map[string]string{
			"failures": orDefault(g.Breaker.Failures, strconv.Itoa(g.Breaker.Failures), "breaker.failures"),
			"timeouts": orDefault(g.Breaker.Timeouts, strconv.Itoa(g.Breaker.Timeouts), "breaker.timeouts"),
			"pause":    orDefault(g.Breaker.Pause, span(g.Breaker.Pause).String(), "breaker.pause"), "max_pause": orDefault(g.Breaker.MaxPause, span(g.Breaker.MaxPause).String(), "breaker.max_pause"),
		},
	}
	r.Concurrency, _ = strconv.Atoi(orDefault(g.Concurrency, strconv.Itoa(g.Concurrency), "concurrency"))
	for _, k := range g.Kinds {
		r.Kinds = append(r.Kinds, k.String())
	}
	for k := range s.Header {
		r.Headers = append(r.Headers, http.CanonicalHeaderKey(k))
	}
	slices.Sort(r.Headers)
	r.Credentials = credentialWords(s)
	return r
}

// credentialWords says which credentials are sent, without them.
func credentialWords(s upstream.Spec) string {
	auth := ""
	switch c := s.Bucket.(type) {
	case *bucket.S3Config:
		auth = c.Auth
	case *bucket.GCSConfig:
		auth = c.Auth
	case *bucket.AzureConfig:
		auth = c.Auth
	}
	k := s.Credentials
	switch {
	case s.Bucket != nil && auth == "":
		return "of the surroundings, or the keys of the bucket"
	case s.Bucket != nil:
		return auth
	case k.Token != "":
		return "bearer token"
	case k.User != "" || k.Password != "" || s.Type == upstream.TypeHTTP && strings.Contains(s.URL, "@"):
		return "basic"
	case k.HeadersFile != "":
		return "headers of " + k.HeadersFile
	}
	return "none"
}

// report prints what the configuration comes to.
func (c *Config) report(out, warn io.Writer, asJSON bool) error {
	specs, err := c.specs()
	if err != nil {
		return err
	}
	list := make([]resolved, 0, len(specs))
	for _, s := range specs {
		list = append(list, resolve(s))
	}
	warnings := c.warnings(specs)
	general := struct {
		File     string   `yaml:"file" json:"file"`
		Listen   string   `yaml:"listen" json:"listen"`
		Public   bool     `yaml:"public" json:"public"`
		NoEgress bool     `yaml:"no_egress" json:"no_egress"`
		FromEnv  bool     `yaml:"from_env" json:"from_env"`
		Stores   []string `yaml:"stores,flow,omitempty" json:"stores,omitempty"`
	}{File: c.file, Listen: c.Listen, Public: c.Public, NoEgress: c.NoEgress, FromEnv: c.FromEnv}
	for _, s := range c.Stores {
		general.Stores = append(general.Stores, s.Dir)
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return enc.Encode(map[string]any{"general": general, "sources": list, "warnings": append([]string{}, warnings...)})
	}
	for _, w := range warnings {
		fmt.Fprintln(warn, "warning:", term.Printable(w))
	}
	if general.File == "" {
		general.File = "none: the defaults and the environment"
	}
	text, err := yaml.Marshal(map[string]any{"general": general, "sources": list})
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

type configPrintCmd struct{}

// Help is the long help text.
func (configPrintCmd) Help() string {
	return `Every key stands there with its default, behind a #: take that away from the keys to change.

  symdepot config print > symdepot.yaml

Exit codes: 0 printed, 3 failed.`
}

// Run prints the documented file.
func (configPrintCmd) Run(a *app) error {
	_, err := io.WriteString(a.stdout, documentedConfig())
	return err
}

// documentedConfig is a configuration file of comments: lines that begin with
// "# " are text, all others keys.
func documentedConfig() string {
	var b strings.Builder
	b.WriteString("# Configuration of symdepot. A key without a # counts; what stands behind one is the default,\n# or an example where there is none. Flags win over SYMDEPOT_* of the environment, and those over this file.\n")
	b.WriteString("# Sizes: 500MB, 20GiB. Times: 300ms, 10s, 5m, 24h, 7d.\n")
	documentKeys(&b, reflect.TypeFor[Config](), "", "")
	b.WriteString("\n# Presets:\n")
	for _, p := range upstream.Presets {
		fmt.Fprintf(&b, "# - %s, %s\n", p.Preset, p.URL)
	}
	return b.String()
}

func documentKeys(b *strings.Builder, t reflect.Type, indent, hyphen string) {
	for f := range t.Fields() {
		name := yamlName(f)
		if name == "" {
			continue
		}
		if indent == "" {
			b.WriteString("\n")
		}
		for _, line := range wrapText(f.Tag.Get("help"), 100) {
			b.WriteString("# " + line + "\n")
		}
		at := "#" + indent
		if hyphen != "" {
			at, hyphen = "#"+indent[2:]+"- ", ""
		}
		switch {
		case f.Type.Kind() == reflect.Struct:
			b.WriteString(at + name + ":\n")
			documentKeys(b, f.Type, indent+"  ", "")
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			b.WriteString(at + name + ":\n")
			documentKeys(b, f.Type.Elem(), indent+"    ", "- ")
		default:
			value := f.Tag.Get("default")
			if value == "" {
				value = f.Tag.Get("example")
			}
			b.WriteString(at + name + ": " + yamlText(f, value) + "\n")
		}
	}
}

// yamlText is a value of a tag as it stands in a file.
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

// documentedTables is the part of docs/config.md that is made of the tags.
func documentedTables() string {
	var b strings.Builder
	section := func(title, about string, t reflect.Type, path string) {
		fmt.Fprintf(&b, "### %s\n\n", title)
		if about != "" {
			b.WriteString(about + "\n\n")
		}
		b.WriteString("| Key | Type | Default | Example | Meaning |\n|---|---|---|---|---|\n")
		for f := range t.Fields() {
			if yamlName(f) == "" {
				continue
			}
			k := key{join(path, yamlName(f)), f}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.path, k.typeWords(), code(f.Tag.Get("default")), code(exampleText(f)), strings.ReplaceAll(f.Tag.Get("help"), "|", `\|`))
		}
		b.WriteString("\n")
	}
	section("General", "", reflect.TypeFor[Config](), "")
	for _, k := range allKeys(reflect.TypeFor[Config](), "") {
		t := k.field.Type
		switch {
		case t.Kind() == reflect.Struct:
			section("`"+k.path+"`", k.field.Tag.Get("help"), t, k.path)
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
			section("`"+k.path+"`", k.field.Tag.Get("help"), t.Elem(), k.path+"[]")
		}
	}
	b.WriteString("### Presets\n\n| Preset | Address | Layout | Rank | Asked for | Executables |\n|---|---|---|---|---|---|\n")
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

// exampleText is what a key looks like in a file.
func exampleText(f reflect.StructField) string {
	if e := f.Tag.Get("example"); e != "" {
		return yamlName(f) + ": " + yamlText(f, e)
	}
	return ""
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
