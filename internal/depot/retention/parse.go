package retention

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Limits of a policy.
const (
	MaxPolicyBytes = 256 << 10 // the text
	maxClasses     = 1000
	maxProducts    = 10000
	maxFaults      = 20  // reported at once
	maxName        = 64  // bytes of a class name
	maxProductName = 200 // bytes; longer keys are a trap of YAML
)

// Defaults of the keys that a policy leaves out.
const (
	defaultMinAge = term.Duration(24 * time.Hour)
	defaultFloor  = 1
	defaultBrake  = Share(3000)
)

// Fault is an error in the text of a policy, with its location.
type Fault struct {
	File string
	Line int    // 0: unknown
	Key  string // for example retention.classes[1].keep_last; empty: the whole text
	What string
}

// Error implements error: FILE:LINE: KEY: WHAT.
func (f *Fault) Error() string {
	at := f.File
	if f.Line > 0 {
		at += ":" + strconv.Itoa(f.Line)
	}
	if f.Key != "" {
		at += ": " + f.Key
	}
	return at + ": " + f.What
}

// Parse reads a policy in YAML. file is the name for error messages. Decoding is
// strict: unknown keys, repeated keys and aliases are errors. The error joins all
// faults, each a *Fault, up to 20.
func Parse(file string, text []byte) (*Policy, error) {
	d := &decoder{file: file}
	p := &Policy{Default: Forever, MinAge: defaultMinAge, Floor: defaultFloor, Brake: defaultBrake, Trash: DefaultTrash}
	if root := d.document(text); root != nil {
		d.keys(root, "", []key{{"retention", func(n *yaml.Node, at string) { d.policy(n, at, p) }}})
	}
	if len(d.faults) > 0 {
		return nil, errors.Join(d.faults...)
	}
	return p, nil
}

type decoder struct {
	file   string
	faults []error
}

func (d *decoder) fail(line int, key, format string, args ...any) {
	switch {
	case len(d.faults) < maxFaults:
		d.faults = append(d.faults, &Fault{d.file, line, key, fmt.Sprintf(format, args...)})
	case len(d.faults) == maxFaults:
		d.faults = append(d.faults, &Fault{File: d.file, What: "more errors follow"})
	}
}

// document parses the text into its root node; nil after an error.
func (d *decoder) document(text []byte) *yaml.Node {
	if len(text) > MaxPolicyBytes {
		d.fail(0, "", "the policy has %d bytes; at most %d are allowed", len(text), MaxPolicyBytes)
		return nil
	}
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		d.fail(0, "", "the policy is empty; it starts with the key retention")
		return nil
	case err != nil:
		line, what := 0, strings.TrimPrefix(err.Error(), "yaml: ")
		if rest, ok := strings.CutPrefix(what, "line "); ok {
			if n, rest, ok := strings.Cut(rest, ": "); ok {
				if i, err := strconv.Atoi(n); err == nil {
					line, what = i, rest
				}
			}
		}
		d.fail(line, "", "%s; YAML is expected", what)
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		d.fail(more.Line, "", "one document is expected, not several")
		return nil
	}
	return doc.Content[0]
}

// key is a key of a map and the function that reads its value.
type key struct {
	name string
	read func(n *yaml.Node, at string)
}

// keys reads the keys of a map.
func (d *decoder) keys(n *yaml.Node, at string, known []key) {
	var names []string
	for _, k := range known {
		names = append(names, k.name)
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, at, "a map is expected, with keys such as %s", strings.Join(names[:min(len(names), 6)], ", "))
		return
	}
	for name, value := range d.pairs(n, at) {
		k := join(at, name.Value)
		i := slices.Index(names, name.Value)
		if i < 0 {
			hint := term.NearestOrAll(name.Value, names, synonyms)
			if at == "" && slices.Contains(policyKeys, name.Value) {
				hint = "; put it below the key retention"
			} else if at == "retention" && slices.Contains(classKeys, name.Value) {
				hint = "; it belongs to a class in retention.classes"
			}
			d.fail(name.Line, k, "no such key%s", hint)
			continue
		}
		known[i].read(value, k)
	}
}

// pairs yields the keys and values of a map, each key once.
func (d *decoder) pairs(n *yaml.Node, at string) func(yield func(name, value *yaml.Node) bool) {
	return func(yield func(name, value *yaml.Node) bool) {
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			k := join(at, name.Value)
			switch {
			case name.Kind != yaml.ScalarNode:
				d.fail(name.Line, at, "a text is expected as key")
			case seen[name.Value]:
				d.fail(name.Line, k, "the key is set twice")
			case value.Kind == yaml.AliasNode:
				d.fail(value.Line, k, "aliases are not supported; repeat the value")
			case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
				d.fail(value.Line, k, "the value is missing")
			default:
				seen[name.Value] = true
				if !yield(name, value) {
					return
				}
				continue
			}
			seen[name.Value] = true
		}
	}
}

func join(at, name string) string {
	if at == "" {
		return clip(name)
	}
	return at + "." + clip(name)
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

var (
	policyKeys = []string{"classes", "default", "products", "cap", "min_age", "floor", "trash", "brake", "schedule"}
	classKeys  = []string{"name", "match", "keep_last", "keep_within", "keep_used", "cap", "publish", "coverage"}
)

// policy reads the value of the key retention.
func (d *decoder) policy(n *yaml.Node, at string, p *Policy) {
	var def *yaml.Node
	lines := map[string]int{}
	d.keys(n, at, []key{
		{"classes", func(n *yaml.Node, at string) { p.Classes = d.classes(n, at, lines) }},
		{"default", func(n *yaml.Node, at string) { def, p.Default = n, d.text(n, at) }},
		{"products", func(n *yaml.Node, at string) { p.ProductCaps = d.products(n, at) }},
		{"cap", func(n *yaml.Node, at string) { d.cap(n, at, &p.Cap) }},
		{"min_age", func(n *yaml.Node, at string) { d.unmarshal(n, at, term.DurationSyntax, &p.MinAge) }},
		{"floor", func(n *yaml.Node, at string) { p.Floor = d.count(n, at) }},
		{"trash", func(n *yaml.Node, at string) { d.unmarshal(n, at, term.DurationSyntax, &p.Trash) }},
		{"brake", func(n *yaml.Node, at string) { d.unmarshal(n, at, shareSyntax, &p.Brake) }},
		{"schedule", func(n *yaml.Node, at string) {
			p.Schedule = d.text(n, at)
			if t, err := time.Parse("15:04", p.Schedule); err != nil || t.Format("15:04") != p.Schedule {
				d.fail(n.Line, at, "a time of day in UTC is expected, such as 02:00, not %q", clip(p.Schedule))
			}
		}},
	})
	if def != nil && p.Default != Forever && lines[p.Default] == 0 {
		known := append([]string{Forever}, slices.Sorted(maps.Keys(lines))...)
		d.fail(def.Line, join(at, "default"), "no class is called %q%s; known are %s",
			clip(p.Default), nearest(p.Default, known), clip(strings.Join(known, ", ")))
	}
}

// classes reads the list of classes and notes the line of each name.
func (d *decoder) classes(n *yaml.Node, at string, lines map[string]int) []Class {
	if n.Kind != yaml.SequenceNode {
		d.fail(n.Line, at, "a list is expected, with a hyphen before each item")
		return nil
	}
	if len(n.Content) > maxClasses {
		d.fail(n.Line, at, "%d classes; at most %d are allowed", len(n.Content), maxClasses)
		return nil
	}
	var list []Class
	for i, item := range n.Content {
		k := fmt.Sprintf("%s[%d]", at, i)
		if item.Kind == yaml.AliasNode {
			d.fail(item.Line, k, "aliases are not supported; repeat the value")
			continue
		}
		c, ok := d.class(item, k)
		if !ok {
			continue
		}
		if first := lines[c.Name]; first > 0 {
			d.fail(item.Line, k, "class %s was defined in line %d already", c.Name, first)
			continue
		}
		lines[c.Name] = item.Line
		list = append(list, c)
	}
	return list
}

func (d *decoder) class(n *yaml.Node, at string) (c Class, ok bool) {
	rule := 0 // the line of a keep rule
	d.keys(n, at, []key{
		{"name", func(n *yaml.Node, at string) {
			if c.Name = d.text(n, at); !validName(c.Name) {
				d.fail(n.Line, at,
					"a name of up to %d letters, digits, dots, hyphens and underscores is expected, other than %s, not %q", maxName,
					Forever, clip(c.Name))
				c.Name = ""
			} else {
				ok = true
			}
		}},
		{"match", func(n *yaml.Node, at string) {
			d.keys(n, at, []key{
				{"product", func(n *yaml.Node, at string) { c.Match.Product = d.pattern(n, at) }},
				{"version", func(n *yaml.Node, at string) { c.Match.Version = d.pattern(n, at) }},
				{"branch", func(n *yaml.Node, at string) { c.Match.Branch = d.pattern(n, at) }},
			})
		}},
		{"keep_last", func(n *yaml.Node, at string) { c.KeepLast, rule = d.count(n, at), n.Line }},
		{"keep_within", func(n *yaml.Node, at string) {
			d.unmarshal(n, at, term.DurationSyntax, &c.KeepWithin)
			rule = n.Line
		}},
		{"keep_used", func(n *yaml.Node, at string) {
			d.unmarshal(n, at, term.DurationSyntax, &c.KeepUsed)
			rule = n.Line
		}},
		{"cap", func(n *yaml.Node, at string) { d.cap(n, at, &c.Cap) }},
		{"coverage", func(n *yaml.Node, at string) { d.unmarshal(n, at, shareSyntax, &c.Coverage) }},
		{"publish", func(n *yaml.Node, at string) {
			if c.Publish = d.text(n, at); c.Publish != PublishPublic {
				d.fail(n.Line, at, "%s is expected, not %q; leave the key out to make public forms at the first request",
					PublishPublic, clip(c.Publish))
			}
		}},
	})
	if !ok && n.Kind == yaml.MappingNode && !slices.ContainsFunc(n.Content, func(n *yaml.Node) bool { return n.Value == "name" }) {
		d.fail(n.Line, at, "the key name is missing")
	}
	if rule > 0 && c.forever() {
		d.fail(rule, at, "the keep rules keep nothing, so every build of the class would be removed; "+
			"set one above 0, or leave them out to keep the class forever")
	}
	return c, ok
}

// validName reports whether a text can name a class.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && s != Forever &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" && s[0] != '-'
}

// products reads the caps of products.
func (d *decoder) products(n *yaml.Node, at string) map[string]term.ByteSize {
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, at, "a map is expected, such as {Game: {cap: 4TiB}}")
		return nil
	}
	if len(n.Content)/2 > maxProducts {
		d.fail(n.Line, at, "%d products; at most %d are allowed", len(n.Content)/2, maxProducts)
		return nil
	}
	caps := map[string]term.ByteSize{}
	for name, value := range d.pairs(n, at) {
		if len(name.Value) > maxProductName {
			d.fail(name.Line, join(at, name.Value), "the name of a product has %d bytes; at most %d are allowed", len(name.Value), maxProductName)
			continue
		}
		d.keys(value, join(at, name.Value), []key{{"cap", func(n *yaml.Node, at string) {
			var size term.ByteSize
			d.cap(n, at, &size)
			caps[name.Value] = size
		}}})
	}
	return caps
}

func (d *decoder) text(n *yaml.Node, at string) string {
	if n.Kind != yaml.ScalarNode {
		d.fail(n.Line, at, "text is expected, not a %s", kindWord(n))
		return ""
	}
	return n.Value
}

func kindWord(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return "list"
	}
	return "map"
}

// pattern reads a pattern of a match.
func (d *decoder) pattern(n *yaml.Node, at string) string {
	s := d.text(n, at)
	if s == "" && n.Kind == yaml.ScalarNode {
		d.fail(n.Line, at, "a pattern is expected, such as release/*; leave the key out to match everything")
	}
	return s
}

func (d *decoder) count(n *yaml.Node, at string) int {
	i, err := strconv.ParseInt(n.Value, 10, 32)
	if n.Kind != yaml.ScalarNode || err != nil || i < 0 {
		d.fail(n.Line, at, "a whole number of 0 or more is expected")
		return 0
	}
	return int(i)
}

func (d *decoder) unmarshal(n *yaml.Node, at, syntax string, v encoding.TextUnmarshaler) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n.Line, at, "%s, not a %s", syntax, kindWord(n))
	} else if err := v.UnmarshalText([]byte(n.Value)); err != nil {
		d.fail(n.Line, at, "%s, not %q", syntax, clip(n.Value))
	}
}

// cap reads a cap.
func (d *decoder) cap(n *yaml.Node, at string, size *term.ByteSize) {
	*size = 1
	d.unmarshal(n, at, term.SizeSyntax, size)
	if *size == 0 {
		d.fail(n.Line, at, "a cap of 0 would remove all that it may; leave the key out for no cap")
	}
}

// NewClass says that a policy does not have a class, with the class that was probably
// meant, if one is near; it is empty if the policy has the class.
func NewClass(file string, text []byte, class string) string {
	var known []string
	if p, err := Parse(file, text); err == nil {
		for _, c := range p.Classes {
			known = append(known, c.Name)
		}
	}
	if slices.Contains(known, class) {
		return ""
	}
	if near := term.Nearest(class, known); near != "" {
		return fmt.Sprintf("class %s is new; the nearest that was there before is %s", class, near)
	}
	return fmt.Sprintf("class %s is new", class)
}

// SetRules returns the text of a policy in which a class has other rules: the
// command "policy set CLASS --keep-days 14 --keep-last 20". A rule that is zero is
// left as it is. The class, and the whole policy if the text is empty, are made if
// they do not exist. Comments and order stay.
func SetRules(file string, text []byte, class string, rules Rules, size term.ByteSize) ([]byte, error) {
	if !validName(class) {
		return nil, fmt.Errorf("%q cannot name a class: up to %d letters, digits, dots, hyphens and underscores are expected, other than %s",
			class, maxName, Forever)
	}
	if rules.forever() && size == 0 {
		return nil, fmt.Errorf("class %s: no rule is given; give at least one", class)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("retention: {}")
	}
	if _, err := Parse(file, text); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	// Parse has checked that these are maps and that classes is a list.
	retention := valueOf(doc.Content[0], "retention", yaml.MappingNode)
	retention.Style = 0
	classes := valueOf(retention, "classes", yaml.SequenceNode)
	var item *yaml.Node
	for _, n := range classes.Content {
		if valueOf(n, "name", yaml.ScalarNode).Value == class {
			item = n
		}
	}
	if item == nil {
		item = &yaml.Node{Kind: yaml.MappingNode}
		name := valueOf(item, "name", yaml.ScalarNode)
		name.Value, name.Tag = class, "!!str"
		classes.Style = 0
		classes.Content = append(classes.Content, item)
	}
	for _, r := range []struct {
		key, value string
		set        bool
	}{
		{"keep_last", strconv.Itoa(rules.KeepLast), rules.KeepLast > 0},
		{"keep_within", rules.KeepWithin.String(), rules.KeepWithin > 0},
		{"keep_used", rules.KeepUsed.String(), rules.KeepUsed > 0},
		{"cap", size.String(), size > 0},
	} {
		if r.set {
			n := valueOf(item, r.key, yaml.ScalarNode)
			n.Value, n.Tag, n.Style = r.value, "", 0
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, err
	}
	if _, err := Parse(file, out.Bytes()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// valueOf returns the value of a key, which is made if it does not exist.
func valueOf(n *yaml.Node, name string, kind yaml.Kind) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: kind}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
	return value
}
