package catalog

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/symdepot/symdepot/internal/depot/home"
)

// Pages encrypts the keys of pages. A page begins after the last row that was looked at,
// which may be hidden from the client: its id, its size and its name, even the length of
// its name, must not be read from the text of the key. All servers of a depot have one key.
type Pages struct {
	secret func(name string) ([]byte, error)
	log    *slog.Logger

	once  sync.Once
	aead  cipher.AEAD // set once
	nonce []byte      // key of the nonces; set once
}

// sealStep is the step, in bytes, to which the keys of pages are padded. It holds the key
// of any name of 255 bytes, so that these have texts of one length.
const sealStep = 512

// NewPages returns the pages of a depot, whose secret of that name encrypts them.
func NewPages(secret func(name string) ([]byte, error), log *slog.Logger) *Pages {
	return &Pages{secret: secret, log: log}
}

func (s *Pages) init() {
	secret, err := s.secret("pages")
	if err != nil { // a reader that may not write to the depot: its pages are its own
		s.log.Info("the pages of lists have a key of this process only", "reason", err)
		secret = make([]byte, home.SecretSize)
		_, _ = rand.Read(secret) // never fails
	}
	// None of these fails with keys of this length.
	key, _ := hkdf.Key(sha256.New, secret, nil, "symdepot pages", 32)
	s.nonce, _ = hkdf.Key(sha256.New, secret, nil, "symdepot nonces of pages", 32)
	block, _ := aes.NewCipher(key)
	s.aead, _ = cipher.NewGCM(block)
}

// seal returns the text of a key in a list. Equal keys have equal texts.
func (s *Pages) seal(k pageKey, list string) string {
	s.once.Do(s.init)
	b, err := json.Marshal(k)
	if err != nil {
		return "" // impossible
	}
	for pad := (sealStep - len(b)%sealStep) % sealStep; pad > 0; pad-- {
		b = append(b, ' ')
	}
	mac := hmac.New(sha256.New, s.nonce)
	_, _ = fmt.Fprintf(mac, "%q %s", list, b) // never fails
	nonce := mac.Sum(nil)[:s.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, b, []byte(list)))
}

// open reads the text of a key in a list; "" is the begin of the list. Any other text is
// fs.ErrInvalid.
func (s *Pages) open(k *pageKey, text, list string) error {
	if text == "" {
		return nil
	}
	s.once.Do(s.init)
	b, err := base64.RawURLEncoding.DecodeString(text)
	n := s.aead.NonceSize()
	if err == nil && len(b) >= n {
		b, err = s.aead.Open(nil, b[:n], b[n:], []byte(list))
	}
	if err == nil {
		err = json.Unmarshal(b, k)
	}
	if err != nil || k.Number < 0 || k.ID < 0 {
		return fmt.Errorf("the begin of the page is not one of this list: %w", fs.ErrInvalid)
	}
	return nil
}

// pageKey is where a page begins, in the text that the depot gives out.
type pageKey struct {
	Name   []byte `json:"n,omitempty"`
	Number int64  `json:"s,omitempty"`
	ID     int64  `json:"i,omitempty"`
}

// Limits of a page.
const (
	pageRows    = 100  // if no limit is given
	maxPageRows = 1000 // a higher limit is this one
)

func pageLimit(n int) int {
	if n <= 0 {
		n = pageRows
	}
	return min(n, maxPageRows)
}
