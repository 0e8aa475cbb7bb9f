package wire

import (
	"encoding/json"
	"testing"
)

// TestJob: a job on the wire.
func TestJob(t *testing.T) {
	b, err := json.Marshal(Job{ID: 1, Token: "t", Kind: "other", Key: "k", Variant: 7, Input: json.RawMessage(`[1,2]`), Attempts: 1, Seconds: 30})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"id":1,"token":"t","kind":"other","key":"k","variant":7,"input":[1,2],"attempts":1,"lease_seconds":30}`; string(b) != want {
		t.Errorf("the job is sent as %s, want %s", b, want)
	}
}
