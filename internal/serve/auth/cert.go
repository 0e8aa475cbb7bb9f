package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
)

// CertRule maps client certificates to principal names. Exactly one condition is
// set; in it, * matches any characters except @.
type CertRule struct {
	// SHA256 is the fingerprint of the whole certificate, in hex, with or
	// without colons. Such a certificate needs no certificate authority. The
	// other conditions match only certificates that the listener's
	// authorities have signed.
	SHA256 string `yaml:"sha256"`
	CN     string `yaml:"cn"`    // the subject's common name
	DNS    string `yaml:"dns"`   // a DNS name of the certificate
	Email  string `yaml:"email"` // a mail address
	URI    string `yaml:"uri"`   // a URI, such as spiffe://…
	// Name is the principal name. If it is empty, the text that the condition
	// matched is the name. Fingerprints need a Name.
	Name string `yaml:"name"`
}

// certRules maps certificates to names by the first rule that matches.
type certRules []CertRule

func newCertRules(list []CertRule) (certRules, error) {
	out := make(certRules, 0, len(list))
	for i, r := range list {
		n := 0
		for _, s := range []string{r.SHA256, r.CN, r.DNS, r.Email, r.URI} {
			if s != "" {
				n++
			}
		}
		if n != 1 {
			return nil, fmt.Errorf("certificate rule %d has %d conditions; it must have one of sha256, cn, dns, email and uri", i+1, n)
		}
		if r.SHA256 != "" {
			r.SHA256 = strings.ToLower(strings.ReplaceAll(r.SHA256, ":", ""))
			if b, err := hex.DecodeString(r.SHA256); err != nil || len(b) != sha256.Size {
				return nil, fmt.Errorf("certificate rule %d: a SHA-256 fingerprint has 64 hex digits", i+1)
			}
			if r.Name == "" {
				return nil, fmt.Errorf("certificate rule %d: a fingerprint needs a name", i+1)
			}
		}
		if r.Name != "" {
			if err := checkName(r.Name); err != nil {
				return nil, fmt.Errorf("certificate rule %d: the name %w", i+1, err)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

var errUnmapped = errors.New("no rule in auth.certificates matches the client certificate")

// identify returns the identity that a connection's client certificate proves.
func (rules certRules) identify(st *tls.ConnectionState, now time.Time) (Identity, error) {
	leaf := st.PeerCertificates[0]
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return Identity{}, errors.New("the client certificate is not valid at this time")
	}
	vouched := len(st.VerifiedChains) > 0
	for i := range rules {
		if name := rules[i].name(leaf, vouched); name != "" {
			return Identity{Name: name, Method: MethodCertificate, Until: leaf.NotAfter}, nil
		}
	}
	return Identity{}, errUnmapped
}

// name returns the name that the rule maps a certificate to, or "" if the rule
// does not match. vouched says whether the listener's authorities signed it.
func (r *CertRule) name(leaf *x509.Certificate, vouched bool) string {
	var have []string
	want := ""
	switch {
	case r.SHA256 != "":
		sum := sha256.Sum256(leaf.Raw)
		if hex.EncodeToString(sum[:]) == r.SHA256 {
			return r.Name
		}
		return ""
	case !vouched:
		return ""
	case r.CN != "":
		want, have = r.CN, []string{leaf.Subject.CommonName}
	case r.DNS != "":
		want, have = strings.ToLower(r.DNS), leaf.DNSNames
	case r.Email != "":
		want, have = r.Email, leaf.EmailAddresses
	case r.URI != "":
		want = r.URI
		for _, u := range leaf.URIs {
			have = append(have, u.String())
		}
	}
	for _, s := range have {
		if r.DNS != "" {
			s = strings.ToLower(s)
		}
		if checkName(s) != nil || !glob.MatchAccount(want, s) {
			continue
		}
		if r.Name != "" {
			return r.Name
		}
		return s
	}
	return ""
}
