package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// planter puts a text of its own into every key of a configuration that holds texts.
type planter struct {
	n      int
	paths  []string          // of all keys with texts
	secret map[string]string // paths of the keys that are left out, by their planted texts
	names  []string          // planted names in maps of such keys
}

// text plants a text.
func (p *planter) text(path string, hidden bool) string {
	p.n++
	text := fmt.Sprintf("planted-%d-x", p.n)
	if hidden {
		p.secret[text] = path
	}
	return text
}

func (p *planter) plant(v reflect.Value, path string, hidden bool) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		p.plant(v.Elem(), path, hidden)
	case reflect.Struct:
		for f := range v.Type().Fields() {
			name := yamlName(f)
			if name == "" || !f.IsExported() {
				continue
			}
			below := strings.TrimPrefix(path+"."+name, ".")
			p.plant(v.FieldByIndex(f.Index), below, hidden || f.Tag.Get("secret") != "" || f.Tag.Get("private") != "")
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		p.plant(v.Index(0), path, hidden)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		p.plant(value, path, hidden)
		name := p.text(path, false)
		if hidden {
			p.names = append(p.names, name)
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), value)
	case reflect.String:
		if hidden {
			v.SetString(p.text(path, true))
		} else {
			v.SetString(p.text(path, false))
			p.paths = append(p.paths, path)
		}
	}
}

// notSecret are keys with texts whose names sound like secrets and are not: what stands
// there is the path of a file, or a name.
var notSecret = []string{
	"tls.key", "auth.negotiate.keytab", "auth.sign_in.client_secret_file", "upstreams.headers_file", "upstreams.password_file", "upstreams.token_file",
	"webhooks.secret_file",
}

// TestSecretKeys: the text of a configuration for others has no value of a key that is
// marked as secret or private, and every key that sounds like a secret is marked. A new
// key with a secret fails here until it is.
func TestSecretKeys(t *testing.T) {
	t.Parallel()
	p := planter{secret: map[string]string{}}
	var c Config
	p.plant(reflect.ValueOf(&c).Elem(), "", false)
	if len(p.secret) < 10 || len(p.paths) < 50 {
		t.Fatalf("%d secret texts and %d others were planted, want all of the configuration", len(p.secret), len(p.paths))
	}
	var h hider
	text, err := yaml.Marshal(h.keys(reflect.ValueOf(&c).Elem(), reflect.ValueOf(Default()).Elem()))
	if err != nil {
		t.Fatal(err)
	}
	for planted, path := range p.secret {
		if strings.Contains(string(text), planted) {
			t.Errorf("the text has the value of %s, want it left out", path)
		}
		if !slices.Contains(h.hidden, planted) {
			t.Errorf("the value of %s is not removed from other texts", path)
		}
	}
	for _, name := range p.names { // ordinary words in other texts, such as User-Agent
		if strings.Contains(string(text), name) {
			t.Errorf("the text has %s, a name in a map that is left out", name)
		}
	}
	if !strings.Contains(string(text), "planted-") {
		t.Error("the text has no key at all")
	}
	sounds := regexp.MustCompile(`(^|[._])(pass|password|passwd|secret|token|key|keytab|credentials?|cookie|headers?|api_key|private)($|[._])`)
	for _, path := range p.paths {
		if sounds.MatchString(path) && !slices.Contains(notSecret, path) {
			t.Errorf("the key %s sounds like a secret: tag it secret:\"true\", or name it in notSecret", path)
		}
	}
	for _, path := range notSecret {
		if !slices.Contains(p.paths, path) {
			t.Errorf("notSecret names %s, which is no key", path)
		}
	}
}
