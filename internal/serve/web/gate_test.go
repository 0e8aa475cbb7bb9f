package web

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestGate: a gate lets as many in as it has places, and the next when one leaves.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, inside, leave := newGate(2, time.Second, "others"), make(chan struct{}, 9), make(chan struct{})
		for range 6 {
			go func() {
				done, err := g.Enter(requestOf(t, http.MethodGet, "/", http.NoBody))
				if err != nil {
					return
				}
				inside <- struct{}{}
				<-leave
				done()
				done() // does nothing
			}()
		}
		for want := 2; want <= 6; want++ {
			synctest.Wait()
			if len(inside) != want {
				t.Fatalf("%d are inside or were, want %d", len(inside), want)
			}
			if want < 6 {
				leave <- struct{}{}
			}
		}
		close(leave)
	})
}
