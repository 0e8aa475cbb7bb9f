package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A token is tokenPrefix and tokenDigits characters of base64url: 32 random
// bytes. The prefix makes tokens recognizable for users and secret scanners.
const (
	tokenPrefix = "sd_"
	tokenDigits = 43
	tokenLen    = len(tokenPrefix) + tokenDigits
)

// The scopes of tokens. Admin includes the others, for all products; write
// does not include read. ScopeReadPublic is for the public forms of files.
const (
	ScopeRead       = "read"
	ScopeReadPublic = "read:public"
	ScopeWrite      = "write"
	ScopeAdmin      = "admin"
)

// allScopes are the scopes of tokens.
var allScopes = []string{ScopeRead, ScopeReadPublic, ScopeWrite, ScopeAdmin}

// maxName limits the names of tokens, users and principals, in bytes.
const maxName = 256

// NewToken returns a new secret token.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// IsToken reports whether s has exactly the form of a token. It does not check
// that the token exists.
func IsToken(s string) bool {
	if len(s) != tokenLen || s[:len(tokenPrefix)] != tokenPrefix {
		return false
	}
	for i := len(tokenPrefix); i < len(s); i++ {
		if !tokenDigit(s[i]) {
			return false
		}
	}
	return true
}

func tokenDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// HashToken returns the hash under which a token is stored. 256 random bits need
// no slow hash and no salt.
func HashToken(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// PathToken looks for a token at the beginning of a path's decoded segments, as
// in /t/TOKEN/app.pdb/…, and returns the segments after it. Anything that does
// not have the exact form of a token is part of the path: a module may be called
// "t".
func PathToken(segs []string) (token string, rest []string, ok bool) {
	if len(segs) >= 2 && segs[0] == "t" && IsToken(segs[1]) {
		return segs[1], segs[2:], true
	}
	return "", segs, false
}

// TokenSpec describes a new token.
type TokenSpec struct {
	Name      string
	Scopes    []string      // empty means read
	Products  []string      // nil means all
	Lifetime  time.Duration // zero means unlimited
	CreatedBy string
	Uploads   Uploads // without a Build
}

// MakeToken returns a new token and the row to store. The caller shows the secret
// once and does not store it. The error names the fault in the spec.
func MakeToken(spec TokenSpec, now time.Time) (secret string, row TokenRow, err error) {
	if err := checkName(spec.Name); err != nil {
		return "", TokenRow{}, fmt.Errorf("the token's name: %w", err)
	}
	if Redact(spec.Name) != spec.Name {
		return "", TokenRow{}, errors.New("the token's name looks like a token; names are shown in lists and logs")
	}
	scopes := slices.Compact(slices.Sorted(slices.Values(spec.Scopes)))
	if len(scopes) == 0 {
		scopes = []string{ScopeRead}
	}
	for _, s := range scopes {
		if !slices.Contains(allScopes, s) {
			return "", TokenRow{}, fmt.Errorf("unknown scope %q; the scopes are %s", s, strings.Join(allScopes, ", "))
		}
	}
	if slices.Contains(scopes, ScopeAdmin) && spec.Products != nil {
		return "", TokenRow{}, errors.New("the scope admin covers all products; a token limited to products cannot have it")
	}
	if spec.Products != nil && len(spec.Products) == 0 {
		return "", TokenRow{}, errors.New("the token is limited to an empty list of products")
	}
	for what, s := range map[string]string{
		"product": spec.Uploads.Product, "version": spec.Uploads.Version, "branch": spec.Uploads.Branch,
		"class": spec.Uploads.Class,
	} {
		if s == "" {
			continue
		}
		if err := checkName(s); err != nil {
			return "", TokenRow{}, fmt.Errorf("the %s of uploads: %w", what, err)
		}
		if !slices.Contains(scopes, ScopeWrite) && !slices.Contains(scopes, ScopeAdmin) {
			return "", TokenRow{}, fmt.Errorf("the %s of uploads needs the scope write", what)
		}
	}
	if p := spec.Uploads.Product; p != "" && spec.Products != nil && !slices.Contains(spec.Products, p) {
		return "", TokenRow{}, fmt.Errorf("the token may not write the product %q of its uploads", p)
	}
	if spec.Lifetime < 0 {
		return "", TokenRow{}, fmt.Errorf("the lifetime %v is negative", spec.Lifetime)
	}
	secret = NewToken()
	row = TokenRow{
		Hash: HashToken(secret), Name: spec.Name, Scopes: scopes, Products: slices.Clone(spec.Products),
		Created: now, CreatedBy: spec.CreatedBy, Uploads: spec.Uploads.encode(),
	}
	row.ID = shortID(row.Hash)
	if spec.Lifetime > 0 {
		row.Expires = now.Add(spec.Lifetime)
	}
	return secret, row, nil
}

// encode returns JSON, or nothing for the zero value.
func (u Uploads) encode() string {
	if u == (Uploads{}) {
		return ""
	}
	b, err := json.Marshal(u)
	if err != nil {
		panic("auth: texts cannot be encoded: " + err.Error())
	}
	return string(b)
}

// uploads decodes the token's defaults for uploads.
func (r *TokenRow) uploads() (u Uploads, err error) {
	if r.Uploads != "" {
		err = json.Unmarshal([]byte(r.Uploads), &u)
	}
	return u, err
}

// UploadDefaults returns the token's defaults for uploads; none if they cannot be
// decoded.
func (r *TokenRow) UploadDefaults() Uploads {
	u, err := r.uploads()
	if err != nil {
		return Uploads{}
	}
	return u
}

// checkName rejects names that cannot be shown on one line.
func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxName:
		return fmt.Errorf("has %d bytes; the limit is %d", len(s), maxName)
	case !utf8.ValidString(s):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("contains characters that cannot be printed")
	}
	return nil
}

// TokenID returns the id of a token.
func TokenID(secret string) string { return shortID(HashToken(secret)) }

// shortID returns the id of a token for lists and logs.
func shortID(hash [32]byte) string { return hex.EncodeToString(hash[:6]) }
