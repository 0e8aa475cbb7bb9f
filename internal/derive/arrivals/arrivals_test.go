package arrivals_test

import (
	"encoding/base64"
	"testing"

	"github.com/symdepot/symdepot/internal/derive/arrivals"
)

// TestSign uses the example of the specification "Standard Webhooks".
func TestSign(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := arrivals.Sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}
