package depot

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

// pageSeal encrypts the keys of pages. A page begins after the last row that was looked at,
// which may be hidden from the client: its id, its size and its name, even the length of
// its name, must not be read from the text of the key. All servers of a depot have one key.
type pageSeal struct {
	secret func(name string) ([]byte, error)
	log    *slog.Logger

	once  sync.Once
	aead  cipher.AEAD // set once
	nonce []byte      // key of the nonces; set once
}

// sealStep is the step, in bytes, to which the keys of pages are padded. It holds the key
// of any name of 255 bytes, so that these have texts of one length.
const sealStep = 512

func newPageSeal(d *Depot) *pageSeal { return &pageSeal{secret: d.Secret, log: d.log} }

func (s *pageSeal) init() {
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
func (s *pageSeal) seal(k pageKey, list string) string {
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
func (s *pageSeal) open(k *pageKey, text, list string) error {
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
