package bucket_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// answer answers every request.
type answer struct {
	status int
	body   string
	asked  []string
}

func (a *answer) RoundTrip(req *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, req.Method+" "+req.URL.Path+"?"+req.URL.RawQuery)
	return &http.Response{StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)),
		ContentLength: int64(len(a.body)), Request: req}, nil
}

// TestExpiry reads lifecycle rules as the stores document them.
func TestExpiry(t *testing.T) {
	clearEnv(t)
	rules := func(s string) string {
		return `<?xml version="1.0" encoding="UTF-8"?><LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + s + `</LifecycleConfiguration>`
	}
	rule := func(filter, action string) string {
		return rules(`<Rule><ID>r1</ID>` + filter + `<Status>Enabled</Status>` + action + `</Rule>`)
	}
	const days = `<Expiration><Days>30</Days></Expiration>`
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"all":                   {200, rule(`<Filter/>`, days), `"r1" deletes objects whose keys begin with ""`},
		"all, old form":         {200, rule(`<Prefix></Prefix>`, days), "deletes"},
		"ours":                  {200, rule(`<Filter><Prefix>depot/</Prefix></Filter>`, days), `begin with "depot/"`},
		"ours, old form":        {200, rule(`<Prefix>de</Prefix>`, days), `begin with "de"`},
		"a part":                {200, rule(`<Filter><Prefix>depot/c/ff/</Prefix></Filter>`, days), "deletes"},
		"by size":               {200, rule(`<Filter><And><Prefix>depot/</Prefix><ObjectSizeGreaterThan>500</ObjectSizeGreaterThan></And></Filter>`, days), "deletes"},
		"by date":               {200, rule(`<Filter/>`, `<Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration>`), "deletes"},
		"archive":               {200, rule(`<Filter/>`, `<Transition><Days>90</Days><StorageClass>DEEP_ARCHIVE</StorageClass></Transition>`), "archives"},
		"second rule":           {200, rules(`<Rule><ID>a</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status>` + days + `</Rule><Rule><ID>b</ID><Filter/><Status>Enabled</Status>` + days + `</Rule>`), `"b"`},
		"others":                {200, rule(`<Filter><Prefix>logs/</Prefix></Filter>`, days), ""},
		"beside us":             {200, rule(`<Filter><Prefix>depot2/</Prefix></Filter>`, days), ""},
		"not of the prefixes":   {200, rule(`<Filter><Prefix>depot/probe/</Prefix></Filter>`, days), ""},
		"disabled":              {200, strings.Replace(rule(`<Filter/>`, days), "Enabled", "Disabled", 1), ""},
		"by tag":                {200, rule(`<Filter><Tag><Key>temporary</Key><Value>1</Value></Tag></Filter>`, days), ""},
		"by prefix and tag":     {200, rule(`<Filter><And><Prefix>depot/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter>`, days), ""},
		"incomplete uploads":    {200, rule(`<Filter/>`, `<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>`), ""},
		"noncurrent versions":   {200, rule(`<Filter/>`, `<NoncurrentVersionExpiration><NoncurrentDays>7</NoncurrentDays></NoncurrentVersionExpiration>`), ""},
		"delete markers":        {200, rule(`<Filter/>`, `<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>`), ""},
		"cheaper class":         {200, rule(`<Filter/>`, `<Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>`), ""},
		"no rules":              {404, `<Error><Code>NoSuchLifecycleConfiguration</Code></Error>`, ""},
		"no right":              {403, `<Error><Code>AccessDenied</Code></Error>`, ""},
		"no such request":       {501, `<Error><Code>NotImplemented</Code></Error>`, ""},
		"no such method":        {405, ``, ""},
		"a page of a web site":  {200, `<html><body>Hello</body></html>`, ""},
		"nothing":               {200, ``, ""},
		"endless configuration": {200, rules(strings.Repeat(`<Rule>`, 100_000)), ""},
	} {
		a := &answer{status: c.status, body: c.body}
		b := open(t, &bucket.S3Config{Bucket: "symbols", Prefix: "depot", Endpoint: "http://127.0.0.1:1", AccessKey: "k", SecretKey: "s"}, a)
		got, err := bucket.Expiry(t.Context(), b, "c/", "symdepot.json")
		if err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if len(a.asked) != 1 || !strings.HasPrefix(a.asked[0], "GET /symbols/?lifecycle=") {
			t.Errorf("%s: requests %q, want one for the lifecycle", name, a.asked)
		}
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"all":         {200, `{"lifecycle":{"rule":[{"action":{"type":"Delete"},"condition":{"age":30}}]}}`, "deletes"},
		"ours":        {200, `{"lifecycle":{"rule":[{"action":{"type":"Delete"},"condition":{"age":30,"matchesPrefix":["logs/","depot/c/0"]}}]}}`, `"depot/c/0"`},
		"others":      {200, `{"lifecycle":{"rule":[{"action":{"type":"Delete"},"condition":{"age":30,"matchesPrefix":["logs/"]}}]}}`, ""},
		"class":       {200, `{"lifecycle":{"rule":[{"action":{"type":"SetStorageClass","storageClass":"ARCHIVE"},"condition":{"age":30}}]}}`, ""},
		"old":         {200, `{"lifecycle":{"rule":[{"action":{"type":"Delete"},"condition":{"age":30,"isLive":false}}]}}`, ""},
		"versions":    {200, `{"lifecycle":{"rule":[{"action":{"type":"Delete"},"condition":{"numNewerVersions":3}}]}}`, ""},
		"suffix":      {200, `{"lifecycle":{"rule":[{"action":{"type":"Delete"},"condition":{"age":1,"matchesSuffix":[".tmp"]}}]}}`, ""},
		"none":        {200, `{}`, ""},
		"no right":    {403, `{"error":{"errors":[{"reason":"forbidden"}]}}`, ""},
		"not an API":  {200, `<html>`, ""},
		"no endpoint": {404, ``, ""},
	} {
		a := &answer{status: c.status, body: c.body}
		b := open(t, &bucket.GCSConfig{Bucket: "symbols", Prefix: "depot", Endpoint: "http://127.0.0.1:1", Token: "t"}, a)
		got, err := bucket.Expiry(t.Context(), b, "c/", "symdepot.json")
		if err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("Google, %s: %q, %v; want %q", name, got, err, c.want)
		}
		if len(a.asked) != 1 || a.asked[0] != "GET /storage/v1/b/symbols?fields=lifecycle" {
			t.Errorf("Google, %s: requests %q, want one for the lifecycle", name, a.asked)
		}
	}
}

// TestExpiryOfPeers asks real stores, which have no rules.
func TestExpiryOfPeers(t *testing.T) {
	clearEnv(t)
	for name, cfg := range map[string]bucket.Config{"S3": s3Config(buckettest.S3(t)), "Google": func() bucket.Config {
		p := buckettest.GCS(t)
		return &bucket.GCSConfig{Bucket: p.Bucket, Endpoint: p.Endpoint, Token: p.Secret}
	}()} {
		if got, err := bucket.Expiry(t.Context(), open(t, cfg, buckettest.Transport(nil)), ""); got != "" || err != nil {
			t.Errorf("%s: %q, %v; want no rule", name, got, err)
		}
	}
}
