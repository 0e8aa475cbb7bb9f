package stage

import "testing"

// TestBuffers: few contents that arrive at once have long buffers, further ones short ones,
// so that hundreds of slow uploads do not take the memory of hundreds of long buffers; a
// long buffer that is free again is used again.
func TestBuffers(t *testing.T) {
	var releases []func()
	long, bytes := 0, 0
	for range 240 {
		b, release := takeBuffer()
		if releases, bytes = append(releases, release), bytes+len(b); len(b) == longBuffer {
			long++
		}
	}
	if long != maxLongBuffers || bytes > 8<<20 {
		t.Errorf("240 uploads at once: %d long buffers and %d bytes, want %d and at most 8 MiB", long, bytes, maxLongBuffers)
	}
	for _, release := range releases {
		release()
	}
	b, release := takeBuffer()
	defer release()
	if len(b) != longBuffer {
		t.Errorf("the next upload: a buffer of %d bytes, want %d", len(b), longBuffer)
	}
}
