package config

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/glob"
	"github.com/symdepot/symdepot/internal/span"
)

var (
	errCollector = errors.New("the http or https URL of a collector is expected, such as http://collector.example.com:4318")
	errNoTraces  = errors.New("no_egress forbids to send traces; remove one of the two")
)

// check refuses an endpoint that cannot be used, and texts that name no host.
func (t *Traces) check(noEgress bool, fail func(key, format string, args ...any)) {
	if t.Endpoint != "" {
		if _, err := tracesURL(t.Endpoint, false); err != nil {
			fail("traces.endpoint", "%v", err)
		} else if noEgress {
			fail("traces.endpoint", "%v", errNoTraces)
		}
	}
	for _, own := range t.Trust {
		if _, err := netip.ParsePrefix(own); err == nil {
			continue
		}
		if !glob.IsHost(own) {
			fail("traces.trust", "a host, *.domain or network is expected, not %q", own)
		}
	}
}

// tracesURL returns the URL that traces are sent to. whole: it is used as it is.
func tracesURL(text string, whole bool) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errCollector
	}
	if !whole && strings.Trim(u.Path, "/") == "" {
		u = u.JoinPath("v1/traces")
	}
	return u.String(), nil
}

// OpenTracer returns what records traces; nil if there is no collector. The variables
// of OpenTelemetry's specification count if the configuration names none. version is that
// of the program.
func (c *Config) OpenTracer(version string, log *slog.Logger) (*span.Tracer, error) {
	to, whole := c.Traces.Endpoint, false
	if to == "" {
		if c.getenv("OTEL_SDK_DISABLED") == "true" || c.getenv("OTEL_TRACES_EXPORTER") == "none" {
			return nil, nil //nolint:nilnil // a nil tracer records nothing
		}
		if to = c.getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); to != "" {
			whole = true
		} else if to = c.getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); to != "" {
			to, whole = strings.TrimSuffix(to, "/")+"/v1/traces", true
		}
	}
	if to == "" {
		return nil, nil //nolint:nilnil // a nil tracer records nothing
	}
	if c.NoEgress {
		if c.Traces.Endpoint != "" {
			return nil, errNoTraces
		}
		log.Warn("no_egress forbids to send traces; the variables OTEL_* are ignored")
		return nil, nil //nolint:nilnil // a nil tracer records nothing
	}
	at, err := tracesURL(to, whole)
	if err != nil {
		return nil, err
	}
	if p := cmp.Or(c.getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), c.getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); p == "grpc" {
		log.Warn("traces are sent as JSON over HTTP, not over gRPC as OTEL_EXPORTER_OTLP_PROTOCOL says; the usual port of collectors is 4318")
	}
	about := map[string]string{"service.name": "symdepot", "service.version": version}
	keyValues(c.getenv("OTEL_RESOURCE_ATTRIBUTES"), func(k, v string) { about[k] = v })
	if name := c.getenv("OTEL_SERVICE_NAME"); name != "" {
		about["service.name"] = name
	}
	header := http.Header{}
	keyValues(cmp.Or(c.getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), c.getenv("OTEL_EXPORTER_OTLP_HEADERS")), header.Set)
	log.Info("traces are sent", "to", shown(at))
	return span.New(span.Options{URL: at, Header: header, Client: c.Dialer().ClientFor(at), Resource: about, Ratio: sampling(c.getenv), Trust: c.Traces.Trust, Log: log}), nil
}

// keyValues reads a list NAME=VALUE,NAME=VALUE with escapes as in URLs.
func keyValues(list string, each func(k, v string)) {
	for item := range strings.SplitSeq(list, ",") {
		k, v, ok := strings.Cut(item, "=")
		if plain, err := url.PathUnescape(strings.TrimSpace(v)); err == nil {
			v = plain
		}
		if k = strings.TrimSpace(k); ok && k != "" {
			each(k, v)
		}
	}
}

// sampling returns the share of new traces that are recorded.
func sampling(getenv func(string) string) float64 {
	switch strings.TrimPrefix(getenv("OTEL_TRACES_SAMPLER"), "parentbased_") {
	case "always_off":
		return 0
	case "traceidratio":
		if r, err := strconv.ParseFloat(getenv("OTEL_TRACES_SAMPLER_ARG"), 64); err == nil && r >= 0 && r <= 1 {
			return r
		}
	}
	return 1
}
