package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/remote/sympath"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// Self lists the addresses of this server, which must not be its own upstream.
func (c *Config) Self() []string {
	list := []string{c.Listen}
	_, port, err := net.SplitHostPort(c.Listen)
	for _, h := range c.Hosts {
		list = append(list, h+":80", h+":443")
		if err == nil {
			list = append(list, net.JoinHostPort(h, port))
		}
	}
	return list
}

// Specs returns the upstreams: the configured ones, then those of the
// environment if from_env is set.
func (c *Config) Specs() ([]upstream.Spec, error) {
	var list []upstream.Spec
	var errs []error
	names := map[string]bool{}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		s, key, err := u.spec(c)
		if err != nil {
			at := fmt.Sprintf("upstreams[%d]", i)
			errs = append(errs, c.fault(u.line, strings.TrimSuffix(at+"."+key, "."), "%v", err))
			continue
		}
		if names[s.Name] {
			errs = append(errs, c.fault(u.line, fmt.Sprintf("upstreams[%d].name", i), "two upstreams have the name %s; rename one of them", s.Name))
		}
		names[s.Name] = true
		s.PointerRoots, _ = c.PointerFolders()
		list = append(list, s)
	}
	if c.FromEnv {
		more, _ := sympath.FromEnv(c.getenv, c.Self())
		for _, s := range more {
			if !names[s.Name] { // configured upstreams take precedence
				list = append(list, s)
			}
		}
	}
	return list, errors.Join(errs...)
}

// spec describes the upstream. An error is returned with the key that caused it.
func (u *Upstream) spec(c *Config) (s upstream.Spec, key string, err error) {
	switch {
	case u.text != "":
		if s, err = upstream.ParseUpstream(u.text); err != nil {
			return s, "", err
		}
	case u.Folder != "" && (u.URL != "" || u.Preset != ""):
		return s, "folder", errors.New("folder excludes url and preset; remove one of them")
	case u.Preset != "":
		if s, err = upstream.PresetByName(u.Preset); err != nil {
			return s, "preset", err
		}
		if u.URL != "" {
			if !strings.HasPrefix(u.URL, "http://") && !strings.HasPrefix(u.URL, "https://") {
				return s, "url", errors.New("with a preset, the http or https URL of a mirror is expected")
			}
			s.URL = u.URL
		}
	case u.URL != "":
		if s, err = upstream.SpecOf(u.URL); err != nil {
			return s, "url", err
		}
	case u.Folder != "":
		s = upstream.Spec{Type: upstream.TypeFolder, Name: u.Folder, URL: u.Folder}
		s.Guard.Executables = true
	default:
		return s, "", errors.New("one of preset, url and folder is expected")
	}
	if key, err = u.describe(&s); err != nil {
		return s, key, err
	}
	if key, err = u.credentials(&s, c); err != nil {
		return s, key, err
	}
	if err = s.Check(); err != nil {
		if o, ok := errors.AsType[*upstream.OptionError](err); ok {
			return s, o.Option, err
		}
		return s, "", err
	}
	return s, "", nil
}

// describe applies the keys other than credentials.
func (u *Upstream) describe(s *upstream.Spec) (string, error) {
	s.Name, s.Layout = cmp.Or(u.Name, s.Name), cmp.Or(u.Layout, s.Layout)
	g := &s.Guard
	g.Public = g.Public || u.Forms == upstream.FormsPublic
	if u.Rank != nil {
		g.Rank = *u.Rank
	}
	for to, from := range map[*bool]*bool{&g.Executables: u.Executables, &s.Forbidden403: u.Forbidden403, &s.HasIndex: u.HasIndex} {
		if from != nil {
			*to = *from
		}
	}
	if len(u.Kinds) > 0 {
		g.Kinds = nil
		for _, w := range u.Kinds {
			k := symfile.ParseKind(w)
			if k == symfile.KindUnknown {
				return "kinds", fmt.Errorf("unknown kind %q; known are pe, pdb, pdb2, portablepdb, msfz, dbg, elf, macho, wasm, "+
					"breakpad, sourcebundle, symcache, r2rmap, bcsymbolmap, uuidmap, sha1, jsmap, il2cpp, proguard", w)
			}
			g.Kinds = append(g.Kinds, k)
		}
	}
	if len(u.Names) > 0 {
		g.NamePatterns = u.Names
	}
	g.NeverAsk = append(g.NeverAsk, u.NeverAsk...)
	s.Timeouts.Header = time.Duration(u.Timeout)
	return u.headers(s)
}

func (u *Upstream) headers(s *upstream.Spec) (string, error) {
	if len(u.Headers) == 0 {
		return "", nil
	}
	s.Header = http.Header{}
	for k, v := range u.Headers {
		if strings.ContainsAny(k, " :\r\n") || strings.ContainsAny(v, "\r\n") || k == "" {
			return "headers", fmt.Errorf("%q is not the name of a header field, or its value has several lines", k)
		}
		if strings.EqualFold(k, "User-Agent") {
			s.UserAgent = v
			continue
		}
		s.Header.Set(k, v)
	}
	return "", nil
}

// secret is a credential: the key that is its variable, below that of its owner, the value
// that is no secret, and the file that may hold it.
type secret struct{ key, value, file string }

// credentials reads the credentials from the environment, from files or from the
// keys.
func (u *Upstream) credentials(s *upstream.Spec, c *Config) (string, error) {
	prefix := "upstream_" + s.Name + "_"
	got := map[string]string{}
	for _, k := range []secret{
		{"user", u.User, ""}, {"password", "", u.PasswordFile}, {"token", "", u.TokenFile},
	} {
		value, key, err := k.read(c.getenv, prefix)
		if c.lenient && errors.Is(err, fs.ErrNotExist) {
			c.warn(fmt.Sprintf("%s: %s: %v; the server does not start without this file", s.Name, key, err))
			value, err = missingSecret, nil
		}
		if err != nil {
			return key, err
		}
		got[k.key] = value
	}
	_, s3 := s.Bucket.(*bucket.S3Config)
	s.Credentials = upstream.Credentials{User: got["user"], Password: got["password"], Token: got["token"], HeadersFile: u.HeadersFile,
		Negotiate: u.Negotiate != nil && *u.Negotiate}
	if s.Credentials.Negotiate && (got["user"] != "" || got["password"] != "" || got["token"] != "") {
		return "negotiate", errors.New("negotiate excludes user, password and token; remove them")
	}
	if s.Credentials.Negotiate && s.Type != upstream.TypeHTTP {
		return "negotiate", errors.New("only http and https servers can be logged in to with a ticket")
	}
	if got["token"] != "" && (got["user"] != "" || got["password"] != "") && !s3 {
		return "token", errors.New("token excludes user and password; remove one of them")
	}
	u.bucketCredentials(s, got)
	return "", nil
}

// read returns the value of the credential. An error is returned with its key.
func (k secret) read(getenv func(string) string, prefix string) (value, key string, err error) {
	file, value := k.file, k.value
	name := envName(prefix + k.key)
	if v := getenv(name); v != "" {
		return v, "", nil
	}
	if f := getenv(name + "_FILE"); f != "" {
		file, value = f, ""
	}
	if file == "" {
		return value, "", nil
	}
	if value, err = readSecret(file); err != nil {
		return "", k.key + "_file", err
	}
	return value, "", nil
}

// missingSecret replaces the content of a missing file when a configuration is
// only checked.
const missingSecret = "missing"

// maxSecret is the largest file with a secret, in bytes.
const maxSecret = 64 << 10

// readSecret reads a file with one line.
func readSecret(path string) (string, error) {
	text, err := readSmall(path, maxSecret)
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

// bucketCredentials passes credentials to a bucket. The URL says the rest.
func (u *Upstream) bucketCredentials(s *upstream.Spec, got map[string]string) {
	set := func(to *string, from string) { *to = cmp.Or(from, *to) }
	switch c := s.Bucket.(type) {
	case *bucket.S3Config:
		set(&c.AccessKey, got["user"])
		set(&c.SecretKey, got["password"])
		set(&c.SessionToken, got["token"])
		s.Credentials = upstream.Credentials{HeadersFile: u.HeadersFile}
	case *bucket.GCSConfig:
		set(&c.Token, got["token"])
	case *bucket.AzureConfig:
		set(&c.AccountKey, got["password"])
		if c.Auth == "sas" {
			set(&c.SAS, got["token"])
		} else {
			set(&c.Token, got["token"])
		}
		s.Credentials = upstream.Credentials{HeadersFile: u.HeadersFile}
	}
}

// PointerFolders returns the pointer roots with absolute folders.
func (c *Config) PointerFolders() ([]symstore.PointerRoot, error) {
	return PointerFolders(c.PointerRoots)
}

// PointerFolders parses pointer roots, [PREFIX=]DIR each, and makes their
// folders absolute.
func PointerFolders(texts []string) ([]symstore.PointerRoot, error) {
	var list []symstore.PointerRoot
	for _, text := range texts {
		prefix, dir := splitPointerRoot(text)
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		list = append(list, symstore.PointerRoot{Prefix: prefix, Dir: abs})
	}
	return list, nil
}

// Products returns the products of the files of upstreams, by the names of these.
func (c *Config) Products() map[string]string {
	products := map[string]string{}
	for i := range c.Upstreams {
		if s, _, err := c.Upstreams[i].spec(c); err == nil {
			products[s.Name] = c.Upstreams[i].Product
		}
	}
	return products
}
