package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/span"
)

// TestTraces: traces go where the configuration or OpenTelemetry's variables say, with their
// headers, and nowhere with no_egress.
func TestTraces(t *testing.T) {
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body any
		_ = json.NewDecoder(r.Body).Decode(&body)
		b, _ := json.Marshal(body)
		got <- r.URL.Path + " " + r.Header.Get("Api-Key") + " " + string(b)
	}))
	defer collector.Close()
	const env = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		want string // in the request; "": no tracer
		fail string // of the configuration or of OpenTracer
		warn string
	}{
		"off":                    {},
		"key":                    {file: "traces: {endpoint: '" + collector.URL + "'}", want: "/v1/traces "},
		"key and path":           {file: "traces: {endpoint: '" + collector.URL + "/otel'}", want: "/otel "},
		"variable":               {env: map[string]string{env: collector.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b", "OTEL_SERVICE_NAME": "mine"}, want: "/v1/traces a b "},
		"own variable":           {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.URL + "/x"}, want: "/x "},
		"switched off":           {env: map[string]string{env: collector.URL, "OTEL_SDK_DISABLED": "true"}},
		"no egress":              {file: "no_egress: true\ntraces: {endpoint: '" + collector.URL + "'}", fail: "no_egress forbids to send traces"},
		"no egress and variable": {file: "no_egress: true", env: map[string]string{env: collector.URL}, warn: "no_egress forbids to send traces"},
		"no URL":                 {file: "traces: {endpoint: collector}", fail: "the http or https URL"},
		"no host":                {file: "traces: {trust: ['a b']}", fail: "a host, *.domain or network"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			conf, err := conf(t, c.file, c.env)
			if err != nil {
				if c.fail == "" || !strings.Contains(err.Error(), c.fail) {
					t.Fatalf("error %v, want %q", err, c.fail)
				}
				return
			}
			tracer, err := OpenTracer(conf, "v1", slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil || c.fail != "" {
				t.Fatalf("error %v, want %q", err, c.fail)
			}
			if !strings.Contains(log.String(), c.warn) {
				t.Errorf("log %q, want %q", &log, c.warn)
			}
			if (tracer != nil) != (c.want != "") {
				t.Fatalf("tracer %v, want one: %v", tracer, c.want != "")
			}
			if tracer == nil {
				return
			}
			_, s := tracer.Start(context.Background(), "a", span.Internal)
			s.End()
			if err := tracer.Close(); err != nil {
				t.Fatal(err)
			}
			if text := <-got; !strings.HasPrefix(text, c.want) || !strings.Contains(text, "service.name") {
				t.Errorf("the collector got %q, want %q", text, c.want)
			}
		})
	}
}
