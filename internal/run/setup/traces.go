package setup

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/run/config"
)

// OpenTracer returns what records traces; nil if there is no collector. The variables
// of OpenTelemetry's specification count if the configuration names none. version is that
// of the program.
func OpenTracer(c *config.Config, version string, log *slog.Logger) (*span.Tracer, error) {
	to, whole := c.Traces.Endpoint, false
	if to == "" {
		if c.Getenv("OTEL_SDK_DISABLED") == "true" || c.Getenv("OTEL_TRACES_EXPORTER") == "none" {
			return nil, nil //nolint:nilnil // a nil tracer records nothing
		}
		if to = c.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); to != "" {
			whole = true
		} else if to = c.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); to != "" {
			to, whole = strings.TrimSuffix(to, "/")+"/v1/traces", true
		}
	}
	if to == "" {
		return nil, nil //nolint:nilnil // a nil tracer records nothing
	}
	if c.NoEgress {
		if c.Traces.Endpoint != "" {
			return nil, config.ErrNoTraces
		}
		log.Warn("no_egress forbids to send traces; the variables OTEL_* are ignored")
		return nil, nil //nolint:nilnil // a nil tracer records nothing
	}
	at, err := config.TracesURL(to, whole)
	if err != nil {
		return nil, err
	}
	if p := cmp.Or(c.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), c.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); p == "grpc" {
		log.Warn("traces are sent as JSON over HTTP, not over gRPC as OTEL_EXPORTER_OTLP_PROTOCOL says; the usual port of collectors is 4318")
	}
	about := map[string]string{"service.name": "symdepot", "service.version": version}
	keyValues(c.Getenv("OTEL_RESOURCE_ATTRIBUTES"), func(k, v string) { about[k] = v })
	if name := c.Getenv("OTEL_SERVICE_NAME"); name != "" {
		about["service.name"] = name
	}
	header := http.Header{}
	keyValues(cmp.Or(c.Getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), c.Getenv("OTEL_EXPORTER_OTLP_HEADERS")), header.Set)
	log.Info("traces are sent", "to", config.ShownURL(at))
	return span.New(span.Options{
		URL: at, Header: header, Client: Dialer(c).ClientFor(at), Resource: about, Ratio: sampling(c.Getenv),
		Trust: c.Traces.Trust, Log: log,
	}), nil
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
