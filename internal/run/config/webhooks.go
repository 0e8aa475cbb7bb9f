package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
)

// Receiver is told of files that crashes lacked when a build brings them.
type Receiver struct {
	URL    string
	Secret []byte // signs the requests
}

// Receivers returns the receivers of webhooks. An error is returned with its key.
func (c *Config) Receivers() (list []Receiver, key string, err error) {
	for i, w := range c.Webhooks {
		at := fmt.Sprintf("webhooks[%d].", i)
		u, err := url.Parse(w.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return nil, at + "url", errors.New("a URL is expected, such as https://crashes.example.com/hooks/symbols")
		}
		value, key, err := (secret{key: "secret", file: w.SecretFile}).read(c.getenv, fmt.Sprintf("webhooks_%d_", i))
		if c.lenient && errors.Is(err, fs.ErrNotExist) {
			c.warn(fmt.Sprintf("%s%s: %v; the server does not start without this file", at, key, err))
			continue
		}
		if err != nil {
			return nil, at + key, err
		}
		if value == "" {
			return nil, at + "secret_file", errors.New("the file with the secret that signs the requests is expected")
		}
		r := Receiver{URL: w.URL}
		if r.Secret, err = parseSigningSecret(value); err != nil {
			return nil, at + "secret_file", err
		}
		list = append(list, r)
	}
	return list, "", nil
}

// minSigning is the length of the shortest secret that signs, in bytes.
const minSigning = 16

// parseSigningSecret reads the text of a secret: that of Standard Webhooks, whsec_ and base64, or any
// other text, which is used as it is.
func parseSigningSecret(text string) ([]byte, error) {
	signing := []byte(text)
	if coded, ok := strings.CutPrefix(text, "whsec_"); ok {
		var err error
		if signing, err = base64.StdEncoding.DecodeString(coded); err != nil {
			return nil, errors.New("the secret begins with whsec_, but the rest is not base64")
		}
	}
	if len(signing) < minSigning {
		return nil, fmt.Errorf("the secret has %d bytes, %d are expected at least", len(signing), minSigning)
	}
	return signing, nil
}
