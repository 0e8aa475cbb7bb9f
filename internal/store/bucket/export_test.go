package bucket

// SetSingle sets the size, in bytes, above which b writes in several requests
// of that size.
func SetSingle(b Bucket, n int64) {
	switch s := b.(*front).backend.(type) {
	case *s3:
		s.single, s.part = n, n
	case *azure:
		s.single, s.block = n, n
	}
}
