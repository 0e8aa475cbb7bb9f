package web

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// Description returns the OpenAPI 3.1 description of the API in JSON.
var Description = sync.OnceValues(func() (json.RawMessage, error) {
	var v any
	if err := yaml.Unmarshal(openAPI, &v); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return json.Marshal(v)
})

// describe answers GET openapi.json.
func (a serverAPI) describe(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(only(r), r.mayRead()); err != nil {
		return err
	}
	d, err := Description()
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, d)
}
