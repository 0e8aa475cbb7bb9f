package retention

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// String prints the policy in YAML with all keys that Parse would not assume.
// Parse reads it back.
func (p *Policy) String() string {
	var b strings.Builder
	b.WriteString("retention:\n")
	line := func(indent, key, value string) { fmt.Fprintf(&b, "%s%s: %s\n", indent, key, value) }
	if len(p.Classes) > 0 {
		b.WriteString("  classes:\n")
	}
	for _, c := range p.Classes {
		line("    - ", "name", quote(c.Name))
		var match []string
		for _, m := range [][2]string{{"product", c.Match.Product}, {"version", c.Match.Version}, {"branch", c.Match.Branch}} {
			if m[1] != "" {
				match = append(match, m[0]+": "+quote(m[1]))
			}
		}
		const in = "      "
		if len(match) > 0 {
			line(in, "match", "{"+strings.Join(match, ", ")+"}")
		}
		if c.KeepLast > 0 {
			line(in, "keep_last", strconv.Itoa(c.KeepLast))
		}
		if c.KeepWithin > 0 {
			line(in, "keep_within", c.KeepWithin.String())
		}
		if c.KeepUsed > 0 {
			line(in, "keep_used", c.KeepUsed.String())
		}
		if c.Cap > 0 {
			line(in, "cap", c.Cap.String())
		}
		if c.Publish != "" {
			line(in, "publish", quote(c.Publish))
		}
	}
	if p.Default == "" {
		line("  ", "default", Forever)
	} else {
		line("  ", "default", quote(p.Default))
	}
	if len(p.ProductCaps) > 0 {
		b.WriteString("  products:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(p.ProductCaps)) {
		if size := p.ProductCaps[name]; size > 0 {
			line("    ", quote(name), "{cap: "+size.String()+"}")
		} else {
			line("    ", quote(name), "{}")
		}
	}
	if p.Cap > 0 {
		line("  ", "cap", p.Cap.String())
	}
	line("  ", "min_age", p.MinAge.String())
	line("  ", "floor", strconv.Itoa(p.Floor))
	if p.Trash != DefaultTrash {
		line("  ", "trash", p.Trash.String())
	}
	line("  ", "brake", p.Brake.String())
	if p.Schedule != "" {
		line("  ", "schedule", quote(p.Schedule))
	}
	return b.String()
}

// quote prints a text so that YAML reads exactly this text.
func quote(s string) string {
	out, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s})
	if err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSpace(string(out))
}

// Hash identifies the meaning of the policy: comments and the order of keys do not
// count.
func (p *Policy) Hash() string {
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])
}
