package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// leftOut stands for a value that is not shown to others.
const leftOut = "(left out)"

// Redacted returns the keys that differ from their defaults, without secrets, names of
// people and command lines. hidden are the texts that were left out, as far as they are
// known: no other text that leaves the machine with this one may contain them.
func (c *Config) Redacted() (text []byte, hidden []string) {
	var h hider
	node := h.keys(reflect.ValueOf(c).Elem(), reflect.ValueOf(Default()).Elem())
	specs, _ := c.Specs() // faults are reported elsewhere
	for i := range specs {
		k := &specs[i].Credentials
		h.hide(k.Token, k.Password, k.User)
		h.address(specs[i].URL)
		for _, values := range specs[i].Header {
			h.hide(values...)
		}
	}
	if l := c.Access().SignIn; l != nil {
		h.hide(l.ClientSecret)
	}
	programs, _ := c.Programs() // likewise
	for i := range programs {
		h.arguments(programs[i].Command)
	}
	text, err := yaml.Marshal(node)
	if err != nil {
		text = []byte("# " + err.Error() + "\n")
	}
	return text, h.hidden
}

// hider collects what is hidden.
type hider struct{ hidden []string }

// hide notes texts that must not be shown.
func (h *hider) hide(texts ...string) {
	for _, t := range texts {
		if t != "" && !slices.Contains(h.hidden, t) {
			h.hidden = append(h.hidden, t)
		}
	}
}

// address notes the secrets of a URL.
func (h *hider) address(text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return
	}
	if u.User != nil {
		password, _ := u.User.Password()
		h.hide(u.User.Username(), password, u.User.String())
	}
	for _, values := range u.Query() {
		h.hide(values...)
	}
}

// arguments notes those arguments of a command that may be secrets, and the values in them:
// a program repeats them when it prints what is wrong with them. Names of options, files and
// placeholders are none: other texts have them too.
func (h *hider) arguments(command []string) {
	for _, a := range command[1:] {
		if name, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(name, "-") {
			a = value
		}
		if !strings.HasPrefix(a, "-") && !strings.Contains(a, "{") && !filepath.IsAbs(a) {
			h.hide(a)
		}
	}
}

// all notes every text in a value.
func (h *hider) all(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		h.hide(v.String())
	case reflect.Slice:
		for i := range v.Len() {
			h.all(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			h.all(v.MapIndex(k))
		}
	}
}

// keys returns the keys of a struct that differ from usual, which may be invalid.
func (h *hider) keys(v, usual reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	add := func(name string, value *yaml.Node) {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
	}
	if u, ok := v.Interface().(Upstream); ok && u.text != "" {
		h.address(u.text)
		add("text", shownText(upstream.MaskAddresses(u.text)))
	}
	for f := range v.Type().Fields() {
		name := yamlName(f)
		if name == "" {
			continue
		}
		at, old := v.FieldByIndex(f.Index), reflect.Value{}
		if usual.IsValid() {
			old = usual.FieldByIndex(f.Index)
		}
		switch {
		case at.IsZero() || old.IsValid() && reflect.DeepEqual(at.Interface(), old.Interface()):
		case f.Tag.Get("secret") != "" || f.Tag.Get("private") != "":
			h.all(at)
			add(name, shownText(leftOut))
		default:
			add(name, h.value(at, old))
		}
	}
	return n
}

// value returns a value as it is shown.
func (h *hider) value(v, usual reflect.Value) *yaml.Node {
	switch v.Kind() {
	case reflect.Pointer:
		return h.value(v.Elem(), reflect.Value{})
	case reflect.Struct:
		return h.keys(v, usual)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, h.value(v.Index(i), reflect.Value{}))
		}
		return n
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range v.MapKeys() {
			n.Content = append(n.Content, shownText(k.String()), h.value(v.MapIndex(k), reflect.Value{}))
		}
		return n
	case reflect.String:
		text := v.String()
		h.address(text)
		if address.IsDatabase(text) {
			return shownText(address.Shown(text))
		}
		if strings.Contains(text, "://") {
			text = upstream.MaskAddresses(text)
		}
		return shownText(text)
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}
}

func shownText(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}
