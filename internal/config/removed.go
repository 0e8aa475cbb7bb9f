package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// removedKey is a key of an earlier release. For one release such a key is a
// warning instead of an error, and its value moves to the key that replaces it.
type removedKey struct {
	path string // with [] for list items
	to   string // the replacement in the same item; empty: none
	hint string // advice if to is empty
	// value converts the value for to; nil keeps it.
	value func(*yaml.Node) *yaml.Node
}

const noReplacement = "remove it"

var removedKeys = []removedKey{
	{path: "auth.realm", hint: "the realm is always symdepot; " + noReplacement},
	{path: "auth.negotiate.max_clock_skew", hint: "clocks may always differ by 5 minutes; " + noReplacement},
	{path: "auth.audit.max_age", hint: "a new file is started every day; " + noReplacement},
	{path: "auth.certificates[].sha256", to: "auth.certificates[].match", value: prefixed("sha256:")},
	{path: "auth.certificates[].cn", to: "auth.certificates[].match", value: prefixed("cn:")},
	{path: "auth.certificates[].dns", to: "auth.certificates[].match", value: prefixed("dns:")},
	{path: "auth.certificates[].email", to: "auth.certificates[].match", value: prefixed("email:")},
	{path: "auth.certificates[].uri", to: "auth.certificates[].match", value: prefixed("uri:")},
	{path: "tls.acme.email", hint: "authorities no longer send mail; " + noReplacement},
	{path: "upstreams[].ids", hint: "use never_ask, names or kinds; " + noReplacement},
	{path: "upstreams[].user_agent", to: "upstreams[].headers.User-Agent"},
	{path: "upstreams[].max_bytes", hint: "use fetch.max_bytes, for all upstreams"},
	{path: "upstreams[].timeouts.header", to: "upstreams[].timeout"},
	{path: "upstreams[].timeouts", hint: "use timeout"},
	{path: "upstreams[].breaker", hint: "the circuit breaker has fixed limits; " + noReplacement},
	{path: "upstreams[].bucket.access_key", to: "upstreams[].user"},
	{path: "upstreams[].bucket.secret_key", to: "upstreams[].password"},
	{path: "upstreams[].bucket.secret_key_file", to: "upstreams[].password_file"},
	{path: "upstreams[].bucket.session_token", to: "upstreams[].token"},
	{path: "upstreams[].bucket.account_key", to: "upstreams[].password"},
	{path: "upstreams[].bucket.account_key_file", to: "upstreams[].password_file"},
	{path: "upstreams[].bucket.sas", to: "upstreams[].token"},
	{path: "upstreams[].bucket.sas_file", to: "upstreams[].token_file"},
	{path: "upstreams[].bucket.profile", hint: "set AWS_PROFILE"},
	{path: "upstreams[].bucket.role_arn", hint: "set AWS_ROLE_ARN"},
	{path: "upstreams[].bucket.identity_token_file", hint: "set AWS_WEB_IDENTITY_TOKEN_FILE or AZURE_FEDERATED_TOKEN_FILE"},
	{path: "upstreams[].bucket.tenant_id", hint: "set AZURE_TENANT_ID"},
	{path: "upstreams[].bucket.client_id", hint: "set AZURE_CLIENT_ID"},
	{path: "cache.per_source", to: "cache.per_upstream"},
	{path: "fetch.min_rate", hint: "the limit is 16 KiB per second; " + noReplacement},
	{path: "misses.timeout", hint: "such misses are remembered for a minute; " + noReplacement},
	{path: "misses.broken", hint: "such misses are remembered for 10 minutes; " + noReplacement},
	{path: "misses.too_large", hint: "such misses are remembered for a day; " + noReplacement},
}

// migrate replaces removed keys in the tree of a file, and maps that are now
// texts in a list. It returns a warning for each.
func migrate(file string, root *yaml.Node) (warnings []string) {
	warn := func(line int, key, what string) {
		warnings = append(warnings, (&Error{file, line, key, what}).Error())
	}
	for _, k := range removedKeys {
		parent, name := "", k.path
		if i := strings.LastIndex(k.path, "."); i >= 0 {
			parent, name = k.path[:i], k.path[i+1:]
		}
		item := parent // the list item that contains both keys
		if i := strings.LastIndex(parent, "[]"); i >= 0 {
			item = parent[:i+2]
		}
		for _, it := range nodesAt(root, item) {
			rel := strings.TrimPrefix(strings.TrimPrefix(parent, item), ".")
			m := child(it, rel)
			v := take(m, name)
			if v == nil {
				continue
			}
			if rel != "" && len(m.Content) == 0 {
				take(it, rel)
			}
			if k.to == "" {
				warn(v.Line, k.path, "this key no longer exists: "+k.hint)
				continue
			}
			warn(v.Line, k.path, "this key is now "+k.to)
			if k.value != nil {
				v = k.value(v)
			}
			put(it, strings.TrimPrefix(strings.TrimPrefix(k.to, item), "."), v)
			if strings.Contains(k.path, ".bucket.sas") {
				put(it, "bucket.auth", text("sas", v.Line))
			}
		}
	}
	for path, join := range map[string]func(m *yaml.Node) string{
		"pointer_roots[]": func(m *yaml.Node) string {
			if p := scalar(m, "prefix"); p != "" {
				return p + "=" + scalar(m, "dir")
			}
			return scalar(m, "dir")
		},
		"transcoding.programs[]": func(m *yaml.Node) string { return scalar(m, "name") + "=" + scalar(m, "command") },
	} {
		for _, n := range nodesAt(root, path) {
			if n.Kind == yaml.MappingNode {
				t := join(n)
				warn(n.Line, path, fmt.Sprintf("an item is now one text: %q", t))
				*n = *text(t, n.Line)
			}
		}
	}
	return warnings
}

func prefixed(prefix string) func(*yaml.Node) *yaml.Node {
	return func(n *yaml.Node) *yaml.Node { return text(prefix+n.Value, n.Line) }
}

func text(s string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Line: line}
}

// nodesAt returns the nodes at a path; an empty path means the root.
func nodesAt(n *yaml.Node, path string) []*yaml.Node {
	if n == nil || path == "" {
		return []*yaml.Node{n}
	}
	step, rest, _ := strings.Cut(path, ".")
	name, items := strings.CutSuffix(step, "[]")
	c := child(n, name)
	if c == nil {
		return nil
	}
	if !items {
		return nodesAt(c, rest)
	}
	var list []*yaml.Node
	if c.Kind == yaml.SequenceNode {
		for _, item := range c.Content {
			list = append(list, nodesAt(item, rest)...)
		}
	}
	return list
}

// child returns a value below map nodes, or nil. An empty path means the node
// itself.
func child(n *yaml.Node, path string) *yaml.Node {
	if path == "" || n == nil {
		return n
	}
	name, rest, _ := strings.Cut(path, ".")
	if n.Kind == yaml.MappingNode {
		for k, v := range pairs(n) {
			if k.Value == name {
				return child(v, rest)
			}
		}
	}
	return nil
}

func scalar(n *yaml.Node, name string) string {
	if c := child(n, name); c != nil && c.Kind == yaml.ScalarNode {
		return c.Value
	}
	return ""
}

// take removes a key from a map node and returns its value, or nil if the key is
// missing.
func take(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			v := n.Content[i+1]
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
			return v
		}
	}
	return nil
}

// put sets a key below a map node if it is not set. It creates missing maps.
func put(n *yaml.Node, path string, v *yaml.Node) {
	name, rest, deeper := strings.Cut(path, ".")
	if n.Kind != yaml.MappingNode {
		return
	}
	c := child(n, name)
	switch {
	case c == nil && deeper:
		c = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: v.Line}
		n.Content = append(n.Content, text(name, v.Line), c)
		fallthrough
	case deeper:
		put(c, rest, v)
	case c == nil:
		n.Content = append(n.Content, text(name, v.Line), v)
	}
}
