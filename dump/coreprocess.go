package dump

func openCore(s *source) (*Process, error) {
	d, err := readCore(s)
	if err != nil {
		return nil, err
	}
	return &Process{Dump: *d, Requesting: -1}, nil
}
