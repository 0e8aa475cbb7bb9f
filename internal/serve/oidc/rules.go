package oidc

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/truncate"
)

// Rule says what the jobs may do whose tokens have certain claims.
type Rule struct {
	// Issuer is the claim iss of the tokens: the URL below which the issuer's metadata
	// are. Audience is the claim aud, which the job asks for.
	Issuer, Audience string
	// KeysFile is a file with the issuer's key set; empty: the issuer is asked.
	KeysFile string
	// Match has a pattern for each claim by name, all of which must match. In a
	// pattern * matches any text without a slash.
	Match map[string]string
	// Write are the products that the job may add files to; "*" is all. A rule has either
	// these or Public.
	Write []string
	// Read: the job may read these products, too. A push then need not send what the
	// server has.
	Read bool
	// Public are the products whose public forms the job may read; "*" is all. Such a job adds
	// no files.
	Public []string
	// Name is that of the principal; {CLAIM} stands for the value of a claim. Empty:
	// oidc:github:OWNER/REPOSITORY@REF, oidc:gitlab:GROUP/PROJECT@REF or
	// oidc:SUBJECT.
	Name string
	// Product is that of uploads which name none. Branch and Class are those of all
	// uploads of the job; empty: the upload's own. {CLAIM} stands for the value of a
	// claim.
	Product, Branch, Class string
}

// identifying are the claims of which a rule must have one: others, such as a
// repository's name, may come to belong to somebody else.
var identifying = []string{"sub", "repository_id", "repository_owner_id", "project_id", "namespace_id"}

// Limits of a rule.
const maxMatch, maxPattern, maxName, maxLabel = 32, 1024, 256, 256

// Check returns an error if the rule is not valid or is dangerous.
func (r *Rule) Check() error {
	if err := checkIssuer(r.Issuer, "https://token.actions.githubusercontent.com", r.KeysFile != ""); err != nil {
		return err
	}
	switch {
	case r.Audience == "":
		return errors.New("audience: the audience of the tokens is expected, such as the URL of this server")
	case len(r.Write) == 0 && len(r.Public) == 0:
		return errors.New("write: the products are expected that the jobs may add files to, or, in public, those whose public forms " +
			"they may read")
	case len(r.Public) > 0 && (len(r.Write) > 0 || r.Read):
		return errors.New("public: a rule has either public or write and read; make two rules with different audiences")
	case len(r.Public) > 0 && r.Product+r.Branch+r.Class != "":
		return errors.New("public: jobs of this rule add no files; remove product, branch and class")
	case len(r.Match) > maxMatch:
		return fmt.Errorf("match: %d claims; the limit is %d", len(r.Match), maxMatch)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Match)) {
		if p := r.Match[name]; p == "" || len(p) > maxPattern {
			return fmt.Errorf("match.%s: a pattern of 1 to %d bytes is expected", name, maxPattern)
		}
	}
	if !slices.ContainsFunc(identifying, func(name string) bool {
		p := r.Match[name]
		return p != "" && !strings.HasPrefix(p, "*") && (name == "sub" || !strings.Contains(p, "*"))
	}) {
		return fmt.Errorf("match: one of the claims %s is expected, sub with a pattern that does not begin with *, the "+
			"others without *: names of repositories and groups can come to belong to others", strings.Join(identifying, ", "))
	}
	for what, s := range map[string]string{"name": r.Name, "product": r.Product, "branch": r.Branch, "class": r.Class} {
		if len(s) > maxLabel || !truncate.Printable(s) {
			return fmt.Errorf("%s: at most %d printable bytes are expected", what, maxLabel)
		}
		if strings.ContainsAny(placeholder.ReplaceAllString(s, ""), "{}") {
			return fmt.Errorf("%s: %q has braces that are not those of a claim, such as {ref}", what, s)
		}
	}
	return nil
}

// checkIssuer checks the URL of an issuer. hasKeys: its keys are not asked for.
func checkIssuer(issuer, example string, hasKeys bool) error {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("issuer: the URL of an issuer is expected, such as %s, not %q", example, issuer)
	case u.Scheme == "http" && !hasKeys && !glob.IsLoopback(u.Hostname()):
		return errors.New("issuer: keys that come over plain HTTP could be forged; use https, or set jwks_file")
	}
	return nil
}

// matches reports whether the rule applies to a token.
func (r *Rule) matches(c Claims) bool {
	for name, pattern := range r.Match {
		if !slices.ContainsFunc(c.texts(name), func(s string) bool { return glob.MatchSegments(pattern, s) }) {
			return false
		}
	}
	return true
}

// Grant is what a job may do.
type Grant struct {
	// Name is that of the principal.
	Name string
	// Write are products; "*" is all. Read: it may read them, too.
	Write []string
	Read  bool
	// Public are the products whose public forms it may read, if it may do nothing else.
	Public []string
	// Product, Branch and Class are as in the Rule, without placeholders.
	Product, Branch, Class string
	Build                  Build
	Issuer, Subject        string    // of the id token; an issuer need not say a subject
	Expires                time.Time // of the id token
	Origin                 [32]byte  // identifies the id token
}

// decide returns what the first rule that matches grants.
func decide(rules []Rule, c Claims) (Grant, error) {
	issuer, aud := c.text("iss"), c.texts("aud")
	meant := false
	for i := range rules {
		r := &rules[i]
		if r.Issuer != issuer || !slices.Contains(aud, r.Audience) {
			continue
		}
		meant = true
		if r.matches(c) {
			return r.grant(c)
		}
	}
	if !meant {
		return Grant{}, refuse("the id token is for the audience %.300q, not for this server", strings.Join(aud, " "))
	}
	return Grant{}, &Refusal{
		Forbidden: true,
		Text:      fmt.Sprintf("no rule of this server (auth.oidc) names the job with the subject %.300q", c.text("sub")),
	}
}

// placeholder matches {CLAIM} in the name, product, branch or class of a
// rule; the value of the claim replaces it.
var placeholder = regexp.MustCompile(`\{[A-Za-z0-9_./:-]{1,64}\}`)

func (r *Rule) grant(c Claims) (Grant, error) {
	b := buildOf(c)
	g := Grant{Write: r.Write, Read: r.Read, Public: r.Public, Build: b.Build}
	for _, f := range []struct {
		to   *string
		what string
		text string
		most int
	}{
		{&g.Name, "name", r.Name, maxName}, {&g.Product, "product", r.Product, maxLabel},
		{&g.Branch, "branch", r.Branch, maxLabel}, {&g.Class, "class", r.Class, maxLabel},
	} {
		if f.what == "name" && f.text == "" {
			f.text = b.name
		} else {
			missing := ""
			f.text = placeholder.ReplaceAllStringFunc(f.text, func(s string) string {
				v := c.text(s[1 : len(s)-1])
				if v == "" {
					missing = s
				}
				return v
			})
			if missing != "" {
				return g, &Refusal{
					Forbidden: true,
					Text:      fmt.Sprintf("the id token has no claim %s, which the rule of this server needs for the %s", missing, f.what),
				}
			}
		}
		if len(f.text) > f.most || !truncate.Printable(f.text) {
			return g, &Refusal{
				Forbidden: true,
				Text:      fmt.Sprintf("the %s of the job, by its claims, has more than %d bytes or cannot be printed", f.what, f.most),
			}
		}
		*f.to = f.text
	}
	if g.Name == "" {
		return g, &Refusal{Forbidden: true, Text: "the id token has no subject (sub)"}
	}
	return g, nil
}
